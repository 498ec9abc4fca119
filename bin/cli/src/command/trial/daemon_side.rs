//! What the daemon has done from one moment to another, and which sockets it had meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use admin::{SocketRow, ThreadCounters};
use serde::Serialize;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::sockets;

/// Counters are told a moment late: time until they stand still, at most.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);

/// Time between two looks at counters that settle.
const SETTLE_EVERY: Duration = Duration::from_millis(150);

/// Of times in /proc: USER_HZ of Linux, on every architecture that we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// What went through the data plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Carried {
    /// TCP connections that came to stand over the wire, opened and accepted.
    pub(super) connections: u64,
    /// Payload bytes of TCP over the wire, to programs.
    pub(super) bytes_received: u64,
    /// From programs.
    pub(super) bytes_sent: u64,
    /// Accelerated sockets that were seen: listeners, connections, UDP sockets.
    pub(super) sockets_seen: u64,
    /// Of these, connections within the host.
    pub(super) within_host_seen: u64,
    /// Sockets that were left to the kernel, by reason.
    pub(super) left_to_kernel: BTreeMap<String, u64>,
    /// CPU time of the daemon.
    pub(super) daemon_cpu_seconds: f64,
    /// Other programs were attached meanwhile: they are in these figures too.
    pub(super) has_others: bool,
}

/// The daemon at one moment.
#[derive(Debug, Default)]
struct Moment {
    connections: u64,
    received: u64,
    sent: u64,
    left: BTreeMap<String, u64>,
    cpu_seconds: f64,
}

/// What tells a socket from all others: its region, its slot, and its cookie.
type Key = (u32, u32, u64);

/// Watches the daemon while a program runs.
pub(super) struct Watch {
    daemon: Daemon,
    before: Moment,
    seen: BTreeMap<Key, bool>,
    apps: BTreeSet<u32>,
}

impl Watch {
    pub(super) fn begin(daemon: Daemon) -> Result<Self, Failure> {
        let before = Moment::of(&daemon)?;
        Ok(Self { daemon, before, seen: BTreeMap::new(), apps: BTreeSet::new() })
    }

    /// Notes which sockets there are; a daemon that does not answer now is asked at the end.
    pub(super) fn look(&mut self) {
        self.note(&sockets::all(&self.daemon).unwrap_or_default());
    }

    fn note(&mut self, rows: &[SocketRow]) {
        for row in rows {
            self.apps.insert(row.app);
            self.seen.insert((row.region, row.slot, row.cookie), row.is_local);
        }
    }

    /// What has happened since, once the counters stand still.
    pub(super) fn end(self) -> Result<Carried, Failure> {
        let began = Instant::now();
        let mut after = Moment::of(&self.daemon)?;
        while began.elapsed() < SETTLES_WITHIN {
            std::thread::sleep(SETTLE_EVERY);
            let next = Moment::of(&self.daemon)?;
            let is_still = (next.received, next.sent) == (after.received, after.sent);
            after = next;
            if is_still {
                break;
            }
        }
        Ok(self.difference(&after))
    }

    fn difference(&self, after: &Moment) -> Carried {
        let before = &self.before;
        let left = after.left.iter().map(|(reason, count)| {
            (reason.clone(), count.saturating_sub(before.left.get(reason).copied().unwrap_or(0)))
        });
        Carried {
            connections: after.connections.saturating_sub(before.connections),
            bytes_received: after.received.saturating_sub(before.received),
            bytes_sent: after.sent.saturating_sub(before.sent),
            sockets_seen: self.seen.len() as u64,
            within_host_seen: self.seen.values().filter(|is_local| **is_local).count() as u64,
            left_to_kernel: left.filter(|(_, count)| *count > 0).collect(),
            daemon_cpu_seconds: (after.cpu_seconds - before.cpu_seconds).max(0.0),
            has_others: self.apps.len() > 1,
        }
    }
}

impl Moment {
    fn of(daemon: &Daemon) -> Result<Self, Failure> {
        let threads = daemon.counters()?;
        let totals = daemon.fallbacks()?;
        let pid = daemon.status()?.pid;
        Ok(Self {
            connections: sum(&threads, "tcp_connected"),
            received: sum(&threads, "tcp_bytes_received"),
            sent: sum(&threads, "tcp_bytes_sent"),
            left: totals.into_iter().map(|total| (total.message, total.count)).collect(),
            cpu_seconds: cpu_seconds(pid),
        })
    }
}

/// A counter of all threads together.
fn sum(threads: &[ThreadCounters], name: &str) -> u64 {
    let counters = threads.iter().flat_map(|thread| &thread.counters);
    counters.filter(|counter| counter.name == name).map(|counter| counter.value).sum()
}

/// The CPU time of a process so far; zero where it cannot be read.
fn cpu_seconds(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    ticks(&text) as f64 / TICKS_PER_SECOND
}

/// utime and stime of /proc/PID/stat (proc_pid_stat(5)): fields 14 and 15. The name, which may hold
/// anything, ends at the last parenthesis.
fn ticks(stat: &str) -> u64 {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = rest.split_ascii_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_past_a_name_that_looks_like_fields() {
        let stat = "7 (a) 1 2) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 9 9 20 0 1 0 33 1 1";
        assert_eq!(ticks(stat), 300);
        assert_eq!(ticks(""), 0);
    }

    #[test]
    fn what_was_there_before_is_not_the_programs() {
        let moment = |received, count| Moment {
            received,
            left: [("why".to_owned(), count), ("old".to_owned(), 7)].into(),
            ..Moment::default()
        };
        let daemon = Daemon::at(std::path::Path::new("/nowhere"));
        let (seen, apps) = ([((1, 2, 3), true)].into(), [4, 5].into());
        let watch = Watch { daemon, before: moment(100, 1), seen, apps };
        let carried = watch.difference(&moment(150, 3));
        assert_eq!((carried.bytes_received, carried.within_host_seen), (50, 1));
        assert_eq!(carried.left_to_kernel, [("why".to_owned(), 2)].into());
        assert!(carried.has_others);
    }
}
