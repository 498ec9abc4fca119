//! What is wrong with a daemon, and what was since its start.

use std::collections::BTreeMap;
use std::path::Path;

use admin::{
    AppStatus, Command, Counter, DescriptorStatus, PutOutRow, ReplyBody, RingMemoryStatus,
    Status as DaemonStatus, ThreadCounters,
};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::table::grouped;

/// All that is to be said, the worst first.
#[derive(Debug, Default)]
pub(super) struct Problems {
    all: Vec<Problem>,
}

#[derive(Debug, PartialEq, Eq)]
struct Problem {
    /// What stands first, in capitals.
    head: &'static str,
    text: String,
    /// It is so now, and somebody must do something; otherwise it was so since the start, or is
    /// meant to be so.
    is_now: bool,
}

/// A list, in the order in which people are told.
impl Serialize for Problems {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.all)
    }
}

/// `name` is the head as programs write it: `put_out`.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Problem", 3)?;
        fields.serialize_field("name", &self.head.to_lowercase().replace(' ', "_"))?;
        fields.serialize_field("message", &self.text)?;
        fields.serialize_field("is_now", &self.is_now)?;
        fields.end()
    }
}

impl Problems {
    /// Asks the daemon for the rest. One that is older, or ends in between, has shown itself all
    /// the same.
    pub(super) fn of(daemon: &Daemon, status: &DaemonStatus) -> Self {
        let threads = match daemon.ask(Command::Stats) {
            Ok(ReplyBody::Stats { threads }) => threads,
            _ => Vec::new(),
        };
        let put_out = match daemon.ask(Command::Fallbacks) {
            Ok(ReplyBody::Fallbacks { put_out, .. }) => put_out,
            _ => Vec::new(),
        };
        let apps = daemon.apps().unwrap_or_default();
        let is_alive = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
        let mut problems = Self::default();
        problems.add_status(status);
        problems.add_put_out(&put_out, &apps, is_alive);
        problems.all.extend(drops(&threads));
        problems.add_rights(status);
        // Stable: what is wrong now comes before what was.
        problems.all.sort_by_key(|problem| !problem.is_now);
        problems
    }

    /// A line for each, and an empty one.
    pub(super) fn render(&self) -> String {
        let line = |problem: &Problem| format!("{}: {}\n", problem.head, problem.text);
        let mut text: String = self.all.iter().map(line).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }

    /// A daemon is well when nothing is wrong now.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let now = self.all.iter().filter(|problem| problem.is_now);
        let now: Vec<&str> = now.map(|problem| problem.text.as_str()).collect();
        if now.is_empty() { Ok(()) } else { Err(Failure::new(now.join("; "))) }
    }

    fn add(&mut self, head: &'static str, is_now: bool, text: String) {
        self.all.push(Problem { head, text, is_now });
    }

    fn add_status(&mut self, status: &DaemonStatus) {
        for port in &status.ports {
            if let Some(fault) = &port.fault {
                self.add("FAULT", true, format!("{} moves nothing: {fault}", port.port));
            }
        }
        if let Some(left) = status.draining_ms {
            let text = format!(
                "the daemon waits for the sockets of programs to close, for at most {left} ms more; a \
                 second `calisto down` ends it at once"
            );
            self.add("ENDING", true, text);
        }
        self.all.extend(guardian(&status.guardian));
        self.all.extend(status.ring_memory.and_then(memory));
        self.all.extend(status.descriptors.and_then(descriptors));
    }

    /// Programs that were put out, live, and have not come back: their sockets are the kernel's.
    fn add_put_out(
        &mut self,
        put_out: &[PutOutRow],
        apps: &[AppStatus],
        is_alive: impl Fn(u32) -> bool,
    ) {
        let served = |pid: &u32| {
            apps.iter().filter_map(|app| app.served.as_ref()).any(|of| of.pids.contains(pid))
        };
        let mut told = Vec::new();
        for row in put_out {
            // The latest comes first, and says it all.
            let pids = row.pids.iter().filter(|pid| !told.contains(*pid) && is_alive(**pid));
            let Some(pid) = pids.copied().find(|pid| !served(pid)) else { continue };
            told.extend(&row.pids);
            let text = format!(
                "{} (process {pid}) has gone back to the kernel's sockets, {} s ago: {}",
                base::printable(&row.app_name, 64),
                grouped(row.seconds_ago),
                row.message
            );
            self.add("PUT OUT", true, text);
        }
    }

    fn add_rights(&mut self, status: &DaemonStatus) {
        let unconfined = match status.confinement.as_str() {
            "off" => "every thread of the daemon keeps all of root's rights (`confine = false`)",
            "without_paths" => {
                "this kernel has no landlock for paths, and a thread that is taken over could read \
                 what root may read"
            }
            _ => "",
        };
        if !unconfined.is_empty() {
            self.add("NOT CONFINED", false, unconfined.to_owned());
        }
        for port in status.ports.iter().filter(|port| port.trust_link) {
            let text =
                format!("{} trusts its link: received checksums are not verified", port.port);
            self.add("WARNING", false, text);
        }
    }
}

/// How many packets were dropped, and the reason that most of them have; nothing when none was.
fn drops(threads: &[ThreadCounters]) -> Option<Problem> {
    let mut reasons: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    let counters = threads.iter().flat_map(|thread| &thread.counters);
    for Counter { name, help, value } in counters.filter(|of| of.name.starts_with("drop_")) {
        let (sum, _) = reasons.entry(name).or_insert((0, help));
        *sum = sum.saturating_add(*value);
    }
    let all = reasons.values().fold(0u64, |all, (sum, _)| all.saturating_add(*sum));
    let (name, (most, help)) = reasons.into_iter().max_by_key(|(_, (sum, _))| *sum)?;
    let (all, shown) = (grouped(all), grouped(most));
    let text = format!("{all} packets, {shown} of them {name}: {help} (calisto stats)");
    (most > 0).then_some(Problem { head: "DROPPED", text, is_now: false })
}

/// Nobody would go on with connections if the daemon died.
fn guardian(state: &str) -> Option<Problem> {
    let next = match state {
        "ended" => "another one is about to be started",
        "given_up" => {
            "it has ended too often to be started again: start the daemon anew when it can be"
        }
        _ => return None,
    };
    let text = format!(
        "a process that would have the kernel go on with connections of programs has ended, so that \
         they would not live through a sudden end of the daemon; {next}"
    );
    Some(Problem { head: "NO GUARDIAN", text, is_now: true })
}

/// The memory of rings is short, or was: a program may have waited for it.
fn memory(memory: RingMemoryStatus) -> Option<Problem> {
    let RingMemoryStatus { bytes, limit_bytes, refused, evicted, .. } = memory;
    let is_now = bytes > limit_bytes / 4 * 3;
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let text = format!(
        "rings of programs take {} of {} MiB; since the start {evicted} connections that nobody read \
         were reset, and {refused} rings refused (`sockets.memory_mib`)",
        mib(bytes),
        mib(limit_bytes)
    );
    let head = if is_now { "MEMORY IS SHORT" } else { "MEMORY WAS SHORT" };
    (is_now || refused > 0 || evicted > 0).then_some(Problem { head, text, is_now })
}

/// Descriptors ran out: connections were the kernel's then, or programs not let in.
fn descriptors(descriptors: DescriptorStatus) -> Option<Problem> {
    let DescriptorStatus { taken, limit, given_early, refused } = descriptors;
    let text = format!(
        "{} of {} are taken; since the start {} ports of ended connections were given up early, and \
         {} requests refused (`sockets.descriptors`, LimitNOFILE)",
        grouped(taken),
        grouped(limit),
        grouped(given_early),
        grouped(refused)
    );
    let ran_out = given_early > 0 || refused > 0;
    ran_out.then_some(Problem { head: "DESCRIPTORS RAN OUT", text, is_now: false })
}

#[cfg(test)]
mod tests {
    use admin::ServedSockets;

    use super::*;
    use crate::command::apps::tests::app;
    use crate::command::status::tests::status;

    fn problems(status: &DaemonStatus) -> Problems {
        let mut problems = Problems::default();
        problems.add_status(status);
        problems.add_rights(status);
        problems
    }

    #[test]
    fn a_trusted_link_is_said_and_a_fault_is_a_failure_that_names_its_port() {
        let faulty = problems(&status());
        let text = faulty.render();
        assert!(
            text.starts_with("FAULT: xdp:eth1 moves nothing: the interface is down\n"),
            "{text}"
        );
        assert!(text.contains("WARNING: xdp:eth1 trusts its link"), "{text}");
        let given = crate::command::status::as_json(&status(), &faulty).expect("plain data");
        assert_eq!((&given["reply"], &given["pid"]), (&"status".into(), &42.into()));
        let named: Vec<_> = given["problems"].as_array().expect("a list").iter().collect();
        let fault = serde_json::json!({
            "name": "fault",
            "message": "xdp:eth1 moves nothing: the interface is down",
            "is_now": true,
        });
        assert_eq!(*named[0], fault, "{given}");
        assert_eq!((&named[1]["name"], &named[1]["is_now"]), (&"warning".into(), &false.into()));
        assert_eq!(named.len(), text.trim_end().lines().count(), "as many as people see");
        let failure = faulty.check().expect_err("its interface is down");
        let said = (failure.to_string(), failure.exit_code());
        assert_eq!(said, ("xdp:eth1 moves nothing: the interface is down".to_owned(), 1));
        let mut well = status();
        well.ports[0].fault = None;
        assert_eq!(problems(&well).check(), Ok(()));
        well.ports[0].trust_link = false;
        assert_eq!(problems(&well).render(), "");
    }

    #[test]
    fn a_daemon_that_is_ending_fails_and_says_for_how_long_it_waits() {
        let mut ending = status();
        ending.ports.clear();
        assert_eq!(problems(&ending).check(), Ok(()));
        ending.draining_ms = Some(1500);
        let text = problems(&ending).render();
        assert!(text.starts_with("ENDING") && text.contains("at most 1500 ms more"), "{text}");
        assert!(problems(&ending).check().is_err());
    }

    #[test]
    fn a_program_that_was_put_out_and_lives_on_without_us_is_a_failure() {
        let row = |reason: &str, pid| PutOutRow {
            app: 3,
            app_name: "redis-server".to_owned(),
            pids: vec![pid],
            uid: 1000,
            reason: reason.to_owned(),
            message: "it wrote what it must not".to_owned(),
            seconds_ago: 1200,
        };
        let said = |rows: &[PutOutRow], apps: &[AppStatus]| {
            let mut problems = Problems::default();
            problems.add_put_out(rows, apps, |pid| pid != 13);
            (problems.render(), problems.check().is_ok())
        };
        let line = "PUT OUT: redis-server (process 7) has gone back to the kernel's sockets, 1,200 s ago: \
                    it wrote what it must not\n\n";
        assert_eq!(said(&[row("lied", 7), row("stalled", 7)], &[]), (line.to_owned(), false));
        assert_eq!(said(&[row("lied", 13)], &[]), (String::new(), true), "it has ended");
        let served = ServedSockets { sockets: 1, pids: vec![7], profile: String::new() };
        let back = AppStatus { served: Some(served), ..app() };
        assert_eq!(said(&[row("lied", 7)], &[back]), (String::new(), true), "it has come back");
    }

    #[test]
    fn the_reason_of_most_drops_is_named_over_all_threads_and_is_no_failure() {
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
        let problem = drops(&threads).expect("some were dropped");
        let line = "2,004 packets, 2,000 of them drop_bad_checksum: Help of drop_bad_checksum. \
                    (calisto stats)";
        assert_eq!((problem.head, problem.text.as_str(), problem.is_now), ("DROPPED", line, false));
        threads.iter_mut().flat_map(|of| &mut of.counters).for_each(|of| of.value = 0);
        assert_eq!(drops(&threads), None);
        assert_eq!(drops(&[]), None);
    }

    #[test]
    fn memory_is_a_failure_while_it_is_short_and_spoken_of_when_it_was() {
        let of = |bytes: u64, refused, evicted| {
            memory(RingMemoryStatus {
                bytes: bytes << 20,
                limit_bytes: 16 << 20,
                refused,
                discarded_bytes: 0,
                evicted,
            })
        };
        assert_eq!(of(12, 0, 0), None);
        let short = of(13, 0, 0).expect("three quarters are taken");
        assert_eq!((short.head, short.is_now), ("MEMORY IS SHORT", true));
        let was = of(2, 7, 3).expect("rings were refused");
        assert_eq!((was.head, was.is_now), ("MEMORY WAS SHORT", false));
        let said = "rings of programs take 2 of 16 MiB; since the start 3 connections";
        assert!(was.text.starts_with(said) && was.text.contains("7 rings refused"), "{was:?}");
    }

    #[test]
    fn a_guardian_that_has_ended_is_a_failure_until_another_has_begun() {
        assert_eq!(["", "off", "well"].map(guardian), [None, None, None]);
        let ended = guardian("ended").expect("it has ended");
        assert_eq!((ended.head, ended.is_now), ("NO GUARDIAN", true));
        assert!(ended.text.ends_with("another one is about to be started"), "{ended:?}");
        let text = guardian("given_up").expect("it has ended").text;
        assert!(text.ends_with("start the daemon anew when it can be"), "{text}");
    }

    #[test]
    fn descriptors_are_spoken_of_once_they_ran_out() {
        let of = |given_early, refused| {
            descriptors(DescriptorStatus { taken: 1200, limit: 5000, given_early, refused })
        };
        assert_eq!(of(0, 0), None);
        let text = of(2, 3).expect("they ran out").text;
        assert!(text.starts_with("1,200 of 5,000 are taken; since the start 2 ports"), "{text}");
        assert!(text.contains("3 requests refused"), "{text}");
    }
}
