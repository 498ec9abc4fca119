//! `calisto explain`: all that there is to say about one application.

use std::fmt::Write;

use admin::{AppStatus, Command, ReplyBody};
use clap::Args;

use crate::args::Admin;
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table, grouped};

/// Explain one application: what it has, what it may, what became of its packets.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto explain dns")]
pub(crate) struct Explain {
    /// Its name or number, as `calisto apps` shows them; also one that is gone.
    app: String,
    #[command(flatten)]
    admin: Admin,
}

impl Explain {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket).about(Some(&self.app));
        match daemon.ask(Command::Explain)? {
            body @ ReplyBody::Explain { .. } if json => output::json(&body),
            ReplyBody::Explain { app } => output::text(&render(&app)),
            other => Err(daemon.unexpected(&other)),
        }
    }
}

fn render(app: &AppStatus) -> String {
    let mut text = format!(
        "{} (number {}) of process {}, user {}: {}\n",
        app.name, app.id, app.pid, app.uid, app.state
    );
    if let Some(reason) = &app.reason {
        let _ = writeln!(text, "because {}", reason.message);
    }
    let limit = |limit: Option<u64>| limit.map_or("any number".to_owned(), grouped);
    let _ = writeln!(
        text,
        "listens on {}\nmemory: {} bytes, {} buffers for packets, {} of them with the application\n\
         may send {} packets a second and be woken {} times a second",
        app.listen.join(" "),
        grouped(app.region_bytes),
        grouped(u64::from(app.frames)),
        grouped(u64::from(app.frames_with_app)),
        limit(app.limits.packets_per_s),
        limit(app.limits.wakes_per_s),
    );
    if !app.workers.is_empty() {
        let mut table = Table::new(["worker", "state", "groups", "queued", "packets", "asleep"]);
        for worker in &app.workers {
            table.row([
                Cell::Number(worker.id.to_string()),
                worker.state.as_str().into(),
                u64::from(worker.groups).into(),
                u64::from(worker.queued).into(),
                worker.packets.into(),
                if worker.asleep { "yes" } else { "no" }.into(),
            ]);
        }
        let _ = write!(text, "\n{}", table.render());
    }
    let counters: Vec<_> = app.counters.iter().filter(|counter| counter.value > 0).collect();
    if !counters.is_empty() {
        let mut table = Table::new(["counter", "value", "what it counts"]);
        for counter in counters {
            table.row([
                counter.name.as_str().into(),
                counter.value.into(),
                counter.help.as_str().into(),
            ]);
        }
        let _ = write!(text, "\n{}", table.render());
    }
    text
}

#[cfg(test)]
mod tests {
    use admin::{AppLimits, AppWorker, Counter};

    use super::*;

    #[test]
    fn everything_that_happened_to_it_is_said() {
        let app = AppStatus {
            workers: vec![AppWorker {
                id: 0,
                state: "active".to_owned(),
                queued: 3,
                groups: 4096,
                packets: 12_345,
                asleep: true,
            }],
            frames_with_app: 7,
            limits: AppLimits { wakes_per_s: Some(50_000), ..AppLimits::default() },
            counters: vec![
                Counter { name: "drop_spoofed".into(), help: "Why.".into(), value: 9 },
                Counter { name: "held_packets".into(), help: "What.".into(), value: 0 },
            ],
            ..crate::command::apps::tests::app()
        };
        let text = render(&app);
        for part in [
            "because its process ended",
            "7 of them with the application",
            "any number packets a second and be woken 50'000 times",
            "12'345",
            "drop_spoofed",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("held_packets"), "nothing to say of it: {text}");
    }
}
