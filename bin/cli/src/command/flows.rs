//! `calisto flows`: the heaviest flows.

use admin::{Command, FlowRow, ReplyBody};
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table};
use crate::target::{About, Admin};

/// Show the heaviest flows, by sampling, with their group and worker.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto flows -n 5")]
pub(crate) struct Flows {
    /// How many, at most.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    about: About,
}

impl Flows {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket).about(self.about.app.as_deref());
        match daemon.ask(Command::Flows { count: self.count })? {
            body @ ReplyBody::Flows { .. } if json => output::json(&body),
            ReplyBody::Flows { flows } => output::text(&render(&flows)),
            other => Err(daemon.unexpected(&other)),
        }
    }
}

fn render(flows: &[FlowRow]) -> String {
    if flows.is_empty() {
        return "no flow has been sampled yet\n".to_owned();
    }
    let mut table =
        Table::new(["flow", "packets (estimated)", "bytes (estimated)", "group", "worker"]);
    for flow in flows {
        table.row([
            flow.flow.as_str().into(),
            flow.packets.into(),
            flow.bytes.into(),
            Cell::Number(flow.group.to_string()),
            Cell::maybe(flow.worker),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_has_a_line_and_a_group_is_not_marked_like_a_quantity() {
        let row = FlowRow {
            flow: "udp 10.0.0.1:5000 -> 10.0.0.2:7".to_owned(),
            hash: 1,
            group: 65_535,
            worker: None,
            packets: 6_100,
            bytes: 366_000,
        };
        let text = render(&[row]);
        let line = text.lines().nth(1).expect("a line for the flow");
        let words: Vec<&str> = line.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect();
        assert_eq!(words, ["udp 10.0.0.1:5000 -> 10.0.0.2:7", "6,100", "366,000", "65535", "-"]);
        assert_eq!(render(&[]), "no flow has been sampled yet\n");
    }
}
