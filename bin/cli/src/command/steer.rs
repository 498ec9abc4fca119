//! `calisto steer`: which policy decides, the owner table, pins.

use std::io::Read;
use std::path::{Path, PathBuf};

use admin::{Command, LINE_BYTES_MAX, ReplyBody, SteerStatus, Target};
use clap::{Args, Subcommand};
use policy::steer::{self, SteerConfig};
use sys::regular_file::{self, FileError};

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table, grouped};
use crate::target::{About, Admin};

/// See and change which worker owns which flow, while traffic runs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto steer show\n  \
    calisto steer set balanced\n  \
    calisto steer export before.table && calisto steer load before.table\n  \
    calisto steer pin --flow \"udp 10.0.0.1:5000 -> 10.0.0.2:7\" 2\n  \
    calisto steer set balanced --app dns")]
pub(crate) struct Steer {
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    about: About,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the policy in force, the others, the share of each worker, the pins.
    #[command(after_help = "Example:\n  calisto steer show")]
    Show,
    /// Let another policy decide from now on; nothing is lost or reordered by the change.
    #[command(after_help = "Example:\n  calisto steer set modulo")]
    Set {
        /// Its name, as `calisto steer show` lists it.
        policy: String,
    },
    /// Write the owner table as text.
    #[command(after_help = "Example:\n  calisto steer export before.table")]
    Export {
        /// Where to; standard output when absent or `-`.
        file: Option<PathBuf>,
    },
    /// Make the owner table the one of a file that `export` wrote, or that you wrote.
    #[command(after_help = "Examples:\n  calisto steer load before.table\n  \
        printf 'groups 65536\\n0-32767 0\\n32768-65535 1\\n' | calisto steer load -")]
    Load {
        /// Where from; `-` is standard input.
        file: PathBuf,
    },
    /// Keep a group or a flow with one worker, whatever the policy says.
    #[command(after_help = "Examples:\n  calisto steer pin --group 7 2\n  \
        calisto steer pin --flow \"udp 10.0.0.1:5000 -> 10.0.0.2:7\" 2")]
    Pin {
        #[command(flatten)]
        what: What,
        /// The worker that is to have it.
        worker: u16,
    },
    /// Let the policy decide again about a pinned group or flow.
    #[command(after_help = "Example:\n  calisto steer unpin --group 7")]
    Unpin {
        #[command(flatten)]
        what: What,
    },
}

/// A group or a flow.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct What {
    /// A flow group, by number.
    #[arg(long, value_name = "G")]
    group: Option<u32>,
    /// A flow, as `calisto flows` writes it: "udp ADDRESS:PORT -> ADDRESS:PORT".
    #[arg(long, value_name = "FLOW")]
    flow: Option<String>,
}

impl What {
    fn target(&self) -> Target {
        match (&self.flow, self.group) {
            (Some(flow), _) => Target::Flow(flow.clone()),
            (None, group) => Target::Group(group.expect("clap asks for one of the two")),
        }
    }

    fn name(&self) -> String {
        match self.target() {
            Target::Group(group) => format!("group {group}"),
            Target::Flow(flow) => format!("flow {flow}"),
        }
    }
}

impl Steer {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket).about(self.about.app.as_deref());
        match &self.action {
            Action::Show => match daemon.ask(Command::SteerShow)? {
                body @ ReplyBody::Steer(_) if json => output::json(&body),
                ReplyBody::Steer(steer) => output::text(&render(&steer)),
                other => Err(daemon.unexpected(&other)),
            },
            Action::Set { policy } => {
                let nothing = SteerConfig { groups: 0, seed: 0 };
                steer::by_name(policy, nothing).map_err(Failure::usage)?;
                daemon.tell(Command::SteerSet { policy: policy.clone() })?;
                output::done(&format!("{policy} decides from now on"), json)
            }
            Action::Export { file } => {
                let table = daemon.owner_table()?;
                match file.as_deref().filter(|file| *file != Path::new("-")) {
                    None if json => output::json(&ReplyBody::Table { table }),
                    None => output::text(&table),
                    Some(file) => {
                        sys::whole_file::write(file, &table).map_err(|error| {
                            Failure::new(format!("cannot write {}: {error}", file.display()))
                        })?;
                        output::done(&format!("the table is in {}", file.display()), json)
                    }
                }
            }
            Action::Load { file } => {
                let table = read(file)?;
                daemon.tell(Command::SteerLoad { table })?;
                let file = match file.to_str() {
                    Some("-") => "standard input".into(),
                    _ => file.to_string_lossy(),
                };
                output::done(&format!("the table of {file} comes into force"), json)
            }
            Action::Pin { what, worker } => {
                daemon.tell(Command::SteerPin { target: what.target(), worker: *worker })?;
                output::done(&format!("{} stays with worker {worker}", what.name()), json)
            }
            Action::Unpin { what } => {
                daemon.tell(Command::SteerUnpin { target: what.target() })?;
                output::done(&format!("the policy decides about {} again", what.name()), json)
            }
        }
    }
}

/// A table from a file or from standard input, of a size that the protocol carries.
fn read(path: &Path) -> Result<String, Failure> {
    // JSON needs a second byte for each line's end, and some for the message around it.
    const BYTES_MAX: u64 = LINE_BYTES_MAX as u64 / 2;
    let failed = |error: FileError| {
        Failure::new(format!("cannot read the table {}: {error}", path.display()))
    };
    if path != Path::new("-") {
        return regular_file::read_text(path, BYTES_MAX).map_err(failed);
    }
    let mut table = String::new();
    let mut input = std::io::stdin().take(BYTES_MAX + 1);
    input.read_to_string(&mut table).map_err(|error| failed(error.into()))?;
    if table.len() as u64 > BYTES_MAX {
        return Err(failed(FileError::TooLong { bytes_max: BYTES_MAX }));
    }
    Ok(table)
}

fn render(steer: &SteerStatus) -> String {
    let state = if steer.settled {
        "settled".to_owned()
    } else {
        format!("on its way, {} packets held", grouped(u64::from(steer.held)))
    };
    let mut text = format!(
        "policy {}, {} flow groups, {} of them unowned; table {}, {state}\n\n",
        steer.policy,
        grouped(u64::from(steer.groups)),
        grouped(u64::from(steer.unowned)),
        steer.epoch,
    );
    let mut policies = Table::new(["", "policy", "what it does"]);
    for (name, help) in &steer.policies {
        let mark = if *name == steer.policy { "*" } else { "" };
        policies.row([mark.into(), name.as_str().into(), help.as_str().into()]);
    }
    let all: u64 = steer.owned.iter().map(|&(_, groups)| u64::from(groups)).sum();
    let mut owned = Table::new(["worker", "groups", "share"]);
    for &(worker, groups) in &steer.owned {
        let share = 100.0 * f64::from(groups) / all as f64;
        owned.row([worker.into(), groups.into(), Cell::decimal(share, 1, " %")]);
    }
    text = format!("{text}{}\n{}", policies.render(), owned.render());
    // A pinned flow has a group of its own, behind those of the hash; it is counted below.
    let (groups, _): (Vec<_>, Vec<_>) =
        steer.pins.iter().partition(|&&(group, _)| group < steer.groups);
    if !groups.is_empty() {
        let mut pins = Table::new(["pinned group", "worker"]);
        for &(group, worker) in groups {
            pins.row([Cell::Number(group.to_string()), worker.into()]);
        }
        text = format!("{text}\n{}", pins.render());
    }
    if steer.pinned_flows > 0 {
        let count = grouped(steer.pinned_flows.into());
        text += &format!("\nflows pinned one by one: {count}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> SteerStatus {
        SteerStatus {
            policy: "sticky".to_owned(),
            policies: vec![
                ("modulo".to_owned(), "group mod workers".to_owned()),
                ("sticky".to_owned(), "least movement".to_owned()),
            ],
            groups: 65_536,
            unowned: 6,
            epoch: 3,
            settled: true,
            held: 0,
            owned: vec![(0, 300), (1, 100)],
            pins: vec![(60_000, 1), (65_536, 0)],
            pinned_flows: 2,
            pinned: Vec::new(),
            pins_pending: 0,
        }
    }

    #[test]
    fn the_policy_in_force_is_marked_and_shares_are_told() {
        let text = render(&status());
        for line in [
            "policy sticky, 65,536 flow groups, 6 of them unowned; table 3, settled",
            "   modulo  group mod workers",
            "*  sticky  least movement",
            "     0     300  75.0 %",
            "       60000       1",
            "flows pinned one by one: 2",
        ] {
            assert!(text.lines().any(|given| given == line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains("65536 "), "a pinned flow is no group:\n{text}");
        let moving = SteerStatus { settled: false, held: 1200, ..status() };
        assert!(render(&moving).contains("on its way, 1,200 packets held"));
    }

    #[test]
    fn workers_that_own_nothing_have_no_share() {
        let text = render(&SteerStatus { owned: vec![(0, 0)], ..status() });
        assert!(text.contains("     0       0      -\n"), "{text}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let failure = read(Path::new("/nowhere/a.table")).expect_err("there is none");
        assert!(failure.to_string().starts_with("cannot read the table /nowhere/a.table: "));
    }
}
