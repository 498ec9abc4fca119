//! `calisto status`: what is wrong, then ports, workers, policy.

mod problems;

use admin::{Command, ReplyBody, Status as DaemonStatus};
use clap::Args;

use self::problems::Problems;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table, grouped};
use crate::target::Admin;

/// Show the daemon as it is: what is wrong first, then ports, workers, policy, frames.
///
/// Fails while something is wrong: a port moves nothing, the daemon is ending, memory for rings is
/// short, or a program that was put out has its sockets with the kernel. What happened since the
/// start is shown and is no failure. With -j the same is the list `problems`: a name, a message,
/// and whether it is so now.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto status\n  \
    calisto status -j --admin /tmp/calisto.sock")]
pub(crate) struct Status {
    #[command(flatten)]
    admin: Admin,
}

impl Status {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        match daemon.ask(Command::Status)? {
            ReplyBody::Status(status) => {
                let problems = Problems::of(&daemon, &status);
                if json {
                    output::json(&as_json(&status, &problems)?)?;
                } else {
                    output::text(&(problems.render() + &render(&status)))?;
                }
                problems.check()
            }
            other => Err(daemon.unexpected(&other)),
        }
    }
}

/// What the daemon answered, with what is wrong as `problems`.
fn as_json(status: &DaemonStatus, problems: &Problems) -> Result<serde_json::Value, Failure> {
    let answer = ReplyBody::Status(status.clone());
    let mut value = serde_json::to_value(&answer).map_err(Failure::new)?;
    value["problems"] = serde_json::to_value(problems).map_err(Failure::new)?;
    Ok(value)
}

fn render(status: &DaemonStatus) -> String {
    let node = status.numa_node.map_or_else(|| "unknown".to_owned(), |node| node.to_string());
    let text = format!(
        "calisto {}, process {}, up {}\n\
         job {}, arrangement {}, policy {}, {} flow groups\n\
         listens on {}\n\
         frames {} of {} free, NUMA node {node}\n\
         applications attached: {}{}\n",
        status.version,
        status.pid,
        uptime(status.uptime_s),
        status.job,
        status.arrangement,
        status.policy,
        grouped(u64::from(status.groups)),
        if status.listen.is_empty() { "nothing".to_owned() } else { status.listen.join(", ") },
        grouped(u64::from(status.frames_free)),
        grouped(u64::from(status.frames)),
        status.apps,
        match (status.apps, status.programs) {
            (0, _) => String::new(),
            (_, 0) => " (calisto apps)".to_owned(),
            (_, programs) => format!(", {programs} of them by their sockets (calisto apps)"),
        },
    );
    let mut ports = Table::new(["port", "mode", "MTU (bytes)", "received", "sent"]);
    for port in &status.ports {
        let counted = |name: &str| {
            let counter = port.counters.iter().find(|counter| counter.name == name);
            Cell::maybe(counter.map(|counter| counter.value))
        };
        ports.row([
            port.port.as_str().into(),
            port.mode.as_str().into(),
            Cell::Number(port.mtu.to_string()),
            counted("rx_packets"),
            counted("tx_packets"),
        ]);
    }
    let mut workers = Table::new(["worker", "state", "CPU", "groups", "queued", "packets"]);
    for worker in &status.workers {
        workers.row([
            worker.id.into(),
            worker.state.as_str().into(),
            worker.cpu.map_or_else(|| Cell::Number("any".to_owned()), Cell::from),
            worker.groups.into(),
            worker.queued.into(),
            worker.packets.into(),
        ]);
    }
    format!("{text}\n{}\n{}", ports.render(), workers.render())
}

/// Seconds as days, hours, minutes and seconds, from the first that is not zero.
pub(super) fn uptime(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    let seconds = whole % 60;
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
pub(in crate::command) mod tests {
    use admin::{Counter, PortStatus, WorkerStatus};

    use super::*;

    /// One that has a fault, and trusts its link.
    pub(in crate::command) fn status() -> DaemonStatus {
        let counter = Counter { name: "rx_packets".to_owned(), help: String::new(), value: 1500 };
        DaemonStatus {
            pid: 42,
            version: "0.1.0".to_owned(),
            uptime_s: 61.5,
            arrangement: "threads".to_owned(),
            confinement: "whole".to_owned(),
            guardian: "well".to_owned(),
            ring_memory: None,
            descriptors: None,
            job: "echo".to_owned(),
            listen: vec!["udp:10.0.0.2:7".to_owned()],
            ports: vec![PortStatus {
                port: "xdp:eth1".to_owned(),
                mode: "native, copy".to_owned(),
                mtu: 1500,
                trust_link: true,
                fault: Some("the interface is down".to_owned()),
                counters: vec![counter],
            }],
            workers_wanted: 1,
            workers_asked: 1,
            workers: vec![WorkerStatus {
                id: 3,
                state: "active".to_owned(),
                cpu: None,
                numa_node: None,
                groups: 65_536,
                queued: 0,
                packets: 9,
            }],
            policy: "sticky".to_owned(),
            groups: 65_536,
            frames: 4096,
            frames_free: 1000,
            apps: 2,
            programs: 1,
            draining_ms: None,
            numa_node: None,
        }
    }

    #[test]
    fn everything_that_matters_has_its_line() {
        let text = render(&status());
        for line in [
            "calisto 0.1.0, process 42, up 1 min 1 s",
            "job echo, arrangement threads, policy sticky, 65,536 flow groups",
            "listens on udp:10.0.0.2:7",
            "frames 1,000 of 4,096 free, NUMA node unknown",
            "applications attached: 2, 1 of them by their sockets (calisto apps)",
            "xdp:eth1  native, copy         1500     1,500     -",
            "     3  active  any  65,536       0        9",
        ] {
            assert!(text.lines().any(|given| given == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn uptime_is_told_in_the_units_that_matter() {
        for (seconds, text) in [
            (-1.0, "0 s"),
            (59.9, "59 s"),
            (60.0, "1 min 0 s"),
            (3_700.0, "1 h 1 min"),
            (90_000.0, "1 d 1 h"),
        ] {
            assert_eq!(uptime(seconds), text);
        }
    }
}
