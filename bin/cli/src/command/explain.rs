//! `calisto explain`: each socket of a process, accelerated or why not; or all about one
//! application.

mod kernel_sockets;
mod process;
mod report;
mod verdict;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use admin::{AppStatus, Command, ReplyBody};
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::table::{Cell, Table, grouped};
use crate::target::Admin;
use crate::{output, sockets};

/// Explain a process: which of its sockets are accelerated, and why the others are not. Or an
/// application: what it has, what it may, what became of its packets.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto explain 4712                                  a process, socket by socket\n  \
    calisto explain -j $(pidof redis-server)\n  \
    calisto explain dns                                   an application, by name\n  \
    calisto explain --app 3                               or by number")]
pub(crate) struct Explain {
    /// A process's id; or an application's name or number, as `calisto apps` shows them, also of
    /// one that is gone.
    #[arg(value_name = "PID|APP", required_unless_present = "app")]
    target: Option<String>,
    /// An application, even if a process has that number.
    #[arg(long, conflicts_with = "target")]
    app: Option<String>,
    #[command(flatten)]
    admin: Admin,
}

impl Explain {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        let target = self.app.as_deref().or(self.target.as_deref()).unwrap_or_default();
        if self.app.is_none()
            && let Some(pid) = process_of(target)
        {
            return print(&daemon, pid, json);
        }
        let about = daemon.clone().about(Some(target));
        match about.ask(Command::Explain) {
            Ok(body @ ReplyBody::Explain { .. }) if json => output::json(&body),
            Ok(ReplyBody::Explain { app }) => output::text(&render(&app)),
            Ok(other) => Err(about.unexpected(&other)),
            // One whose sockets are served is what its processes are.
            Err(unknown) => match pids_of(&about) {
                pids if pids.is_empty() && self.app.is_none() => Err(no_process(target, unknown)),
                pids if pids.is_empty() => Err(unknown),
                pids => pids.into_iter().try_for_each(|pid| print(&daemon, pid, json)),
            },
        }
    }
}

fn print(daemon: &Daemon, pid: u32, json: bool) -> Result<(), Failure> {
    let explained = process::explain(daemon, pid)?;
    if json { output::json(&explained) } else { output::text(&explained.render()) }
}

/// The processes of the application that `daemon` is about, if its sockets are served.
fn pids_of(daemon: &Daemon) -> BTreeSet<u32> {
    let rows = sockets::all(daemon).unwrap_or_default();
    rows.into_iter().flat_map(|row| row.pids).collect()
}

/// What is said of a number that is neither a process's nor an application's; `unknown`: what the
/// daemon says, which knows of applications only.
fn no_process(target: &str, unknown: Failure) -> Failure {
    match target.parse::<u32>() {
        Ok(pid) => Failure::new(format!("there is no process {pid}, and {unknown}")),
        Err(_) => unknown,
    }
}

/// The process that has this number, if it is one.
fn process_of(target: &str) -> Option<u32> {
    let pid: u32 = target.parse().ok()?;
    Path::new(&format!("/proc/{pid}/fd")).exists().then_some(pid)
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
    fn a_number_is_a_process_if_there_is_one() {
        let own = std::process::id();
        assert_eq!(process_of(&own.to_string()), Some(own));
        for target in ["dns", "", "-1", "4294967295", "0"] {
            assert_eq!(process_of(target), None, "{target}");
        }
    }

    #[test]
    fn a_number_of_nobody_is_said_to_be_no_process() {
        let unknown = Failure::new("there is no application \"999999\"");
        let sentence = "there is no process 999999, and there is no application \"999999\"";
        assert_eq!(no_process("999999", unknown.clone()), Failure::new(sentence));
        assert_eq!(no_process("dns", unknown.clone()), unknown);
    }

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
            "any number packets a second and be woken 50,000 times",
            "12,345",
            "drop_spoofed",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("held_packets"), "nothing to say of it: {text}");
    }
}
