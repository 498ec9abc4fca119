//! `calisto status`: ports, workers, policy.

use std::collections::BTreeMap;

use admin::{
    Command, Counter, DescriptorStatus, ReplyBody, RingMemoryStatus, Status as DaemonStatus,
    ThreadCounters,
};
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table, grouped};
use crate::target::Admin;

/// Show the daemon as it is: ports, workers, policy, frames, and why most packets were dropped.
///
/// Fails when a port moves nothing.
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
                if json {
                    output::json(&ReplyBody::Status(status.clone()))?;
                } else {
                    // An older daemon, or one that ends in between, has shown itself all the same.
                    let drops = match daemon.ask(Command::Stats) {
                        Ok(ReplyBody::Stats { threads }) => drops(&threads),
                        _ => None,
                    };
                    output::text(&(render(&status) + &drops.unwrap_or_default()))?;
                }
                check(&status)
            }
            other => Err(daemon.unexpected(&other)),
        }
    }
}

/// A daemon is well when each port moves packets.
fn check(status: &DaemonStatus) -> Result<(), Failure> {
    let faulty = status.ports.iter().filter_map(|port| {
        port.fault.as_ref().map(|fault| format!("{} moves nothing: {fault}", port.port))
    });
    match faulty.collect::<Vec<_>>() {
        faulty if faulty.is_empty() => Ok(()),
        faulty => Err(Failure::new(faulty.join("; "))),
    }
}

/// How many packets were dropped, and the reason that most of them have; nothing when none was.
fn drops(threads: &[ThreadCounters]) -> Option<String> {
    let mut reasons: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    let counters = threads.iter().flat_map(|thread| &thread.counters);
    for Counter { name, help, value } in counters.filter(|of| of.name.starts_with("drop_")) {
        let (sum, _) = reasons.entry(name).or_insert((0, help));
        *sum = sum.saturating_add(*value);
    }
    let all = reasons.values().fold(0u64, |all, (sum, _)| all.saturating_add(*sum));
    let (name, (most, help)) = reasons.into_iter().max_by_key(|(_, (sum, _))| *sum)?;
    (most > 0).then(|| {
        format!(
            "\nDROPPED: {} packets, {} of them {name}: {help} (calisto stats)\n",
            grouped(all),
            grouped(most)
        )
    })
}

fn render(status: &DaemonStatus) -> String {
    let node = status.numa_node.map_or_else(|| "unknown".to_owned(), |node| node.to_string());
    let mut text = format!(
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
        if status.apps > 0 { " (calisto apps)" } else { "" },
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
    text = format!("{text}\n{}\n{}", ports.render(), workers.render());
    text += match status.confinement.as_str() {
        "off" => {
            "\nNOT CONFINED: every thread of the daemon keeps all of root's rights (`confine = false`)\n"
        }
        "without_paths" => {
            "\nNOT CONFINED to paths: this kernel has no landlock, and a thread that is taken over could \
             read what root may read\n"
        }
        _ => "",
    };
    text += &memory_warning(status.ring_memory);
    text += &descriptor_warning(status.descriptors);
    if let Some(left) = status.draining_ms {
        text += &format!(
            "\nENDING: it waits for the sockets of programs to close, for at most {left} ms more; a \
             second `calisto down` ends it at once\n"
        );
    }
    for port in &status.ports {
        if port.trust_link {
            text += &format!(
                "\nWARNING: {} trusts its link: received checksums are not verified\n",
                port.port
            );
        }
        if let Some(fault) = &port.fault {
            text += &format!("\nFAULT: {} moves nothing: {fault}\n", port.port);
        }
    }
    text
}

/// A line when the memory of rings is short, or was: a program may have waited for it.
fn memory_warning(memory: Option<RingMemoryStatus>) -> String {
    let Some(RingMemoryStatus { bytes, limit_bytes, refused, evicted, .. }) = memory else {
        return String::new();
    };
    let is_short = bytes > limit_bytes / 4 * 3;
    if !is_short && refused == 0 && evicted == 0 {
        return String::new();
    }
    let head = if is_short { "MEMORY IS SHORT" } else { "MEMORY WAS SHORT" };
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    format!(
        "\n{head}: rings of programs take {} of {} MiB; since the start {evicted} connections that \
         nobody read were reset, and {refused} rings refused (`sockets.memory_mib`)\n",
        mib(bytes),
        mib(limit_bytes)
    )
}

/// A line when descriptors ran out: connections were the kernel's then, or programs not let in.
fn descriptor_warning(descriptors: Option<DescriptorStatus>) -> String {
    let Some(DescriptorStatus { taken, limit, given_early, refused }) = descriptors else {
        return String::new();
    };
    if given_early == 0 && refused == 0 {
        return String::new();
    }
    format!(
        "\nDESCRIPTORS RAN OUT: {} of {} are taken; since the start {} ports of ended connections were \
         given up early, and {} requests refused (`sockets.descriptors`, LimitNOFILE)\n",
        grouped(taken),
        grouped(limit),
        grouped(given_early),
        grouped(refused)
    )
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
mod tests {
    use admin::{Counter, PortStatus, WorkerStatus};

    use super::*;

    fn status() -> DaemonStatus {
        let counter = Counter { name: "rx_packets".to_owned(), help: String::new(), value: 1500 };
        DaemonStatus {
            pid: 42,
            version: "0.1.0".to_owned(),
            uptime_s: 61.5,
            arrangement: "threads".to_owned(),
            confinement: "whole".to_owned(),
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
            draining_ms: None,
            numa_node: None,
        }
    }

    #[test]
    fn everything_that_matters_has_its_line() {
        let text = render(&status());
        for line in [
            "calisto 0.1.0, process 42, up 1 min 1 s",
            "job echo, arrangement threads, policy sticky, 65'536 flow groups",
            "listens on udp:10.0.0.2:7",
            "frames 1'000 of 4'096 free, NUMA node unknown",
            "xdp:eth1  native, copy         1500     1'500     -",
            "     3  active  any  65'536       0        9",
        ] {
            assert!(text.lines().any(|given| given == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn a_trusted_link_and_a_fault_are_shown_loudly() {
        let text = render(&status());
        assert!(text.contains("WARNING: xdp:eth1 trusts its link"), "{text}");
        assert!(text.contains("FAULT: xdp:eth1 moves nothing: the interface is down"), "{text}");
        let mut quiet = status();
        quiet.ports[0].trust_link = false;
        quiet.ports[0].fault = None;
        let text = render(&quiet);
        assert!(!text.contains("WARNING") && !text.contains("FAULT"), "{text}");
    }

    #[test]
    fn a_port_that_moves_nothing_is_a_failure_that_names_it() {
        let failure = check(&status()).expect_err("its interface is down");
        let said = (failure.to_string(), failure.exit_code());
        assert_eq!(said, ("xdp:eth1 moves nothing: the interface is down".to_owned(), 1));
        let mut well = status();
        well.ports[0].fault = None;
        assert_eq!(check(&well), Ok(()));
    }

    #[test]
    fn a_daemon_that_is_ending_says_for_how_long_it_waits() {
        let mut ending = status();
        assert!(!render(&ending).contains("ENDING"));
        ending.draining_ms = Some(1500);
        let text = render(&ending);
        assert!(text.contains("ENDING") && text.contains("at most 1500 ms more"), "{text}");
    }

    #[test]
    fn the_reason_of_most_drops_is_named_over_all_threads() {
        let of = |name: &str, value| Counter {
            name: name.to_owned(),
            help: format!("Help of {name}."),
            value,
        };
        let thread = |counters| ThreadCounters { thread: String::new(), counters };
        let mut threads = vec![
            thread(vec![of("drop_bad_checksum", 3), of("drop_ring_full", 4), of("packets", 99)]),
            thread(vec![of("drop_bad_checksum", 1997)]),
        ];
        let text = drops(&threads).expect("some were dropped");
        let line = "DROPPED: 2'004 packets, 2'000 of them drop_bad_checksum: Help of \
                    drop_bad_checksum. (calisto stats)";
        assert_eq!(text.trim(), line);
        threads.iter_mut().flat_map(|of| &mut of.counters).for_each(|of| of.value = 0);
        assert_eq!(drops(&threads), None);
        assert_eq!(drops(&[]), None);
    }

    #[test]
    fn memory_is_spoken_of_when_it_is_short_or_was() {
        let memory = |bytes: u64, refused| RingMemoryStatus {
            bytes: bytes << 20,
            limit_bytes: 16 << 20,
            refused,
            discarded_bytes: 0,
            evicted: 3,
        };
        let quiet = |bytes: u64| RingMemoryStatus { evicted: 0, ..memory(bytes, 0) };
        assert_eq!(memory_warning(None) + &memory_warning(Some(quiet(12))), "");
        assert!(memory_warning(Some(quiet(13))).contains("MEMORY IS SHORT"));
        let was = memory_warning(Some(memory(2, 7)));
        let said = "WAS SHORT: rings of programs take 2 of 16 MiB; since the start 3 connections";
        assert!(was.contains(said) && was.contains("7 rings refused"), "{was}");
    }

    #[test]
    fn descriptors_are_spoken_of_once_they_ran_out() {
        let status = |given_early, refused| {
            Some(DescriptorStatus { taken: 1200, limit: 5000, given_early, refused })
        };
        assert_eq!(descriptor_warning(None) + &descriptor_warning(status(0, 0)), "");
        let text = descriptor_warning(status(2, 3));
        assert!(
            text.contains("RAN OUT: 1'200 of 5'000 are taken; since the start 2 ports"),
            "{text}"
        );
        assert!(text.contains("3 requests refused"), "{text}");
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
