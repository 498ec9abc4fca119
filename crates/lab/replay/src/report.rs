//! What a replay found, as data; `report/text.rs` makes a table of it.

use std::cell::Ref;

use base::Nanos;
use datapath::counters::CounterReader;
use serde::Serialize;

use crate::packet_tracker::PacketTracker;
use crate::{Options, Pace};

mod sums;
mod text;

use sums::{by_worker, dropped_for_what_they_are, flows, protocols, top};

/// What a replay found. Bytes are those that packets had on the wire, link header included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was replayed, and onto what.
    #[serde(flatten)]
    pub setup: Setup,
    /// The records of the file.
    pub records: Records,
    /// What was played of them, and when.
    #[serde(flatten)]
    pub played: Played,
    /// What workers had, by protocol; protocols that did not occur are left out.
    pub protocols: Vec<ProtocolRow>,
    /// What workers had, by worker.
    pub by_worker: Vec<WorkerRow>,
    /// Flows, and what happened to them.
    pub flows: Flows,
    /// The checksums of the flows' packets.
    pub checksums: Checksums,
    /// Every counter of the dispatcher that is not zero.
    pub counters: Vec<Counter>,
    /// The flows with most bytes.
    pub top: Vec<TopFlow>,
    /// What went wrong.
    #[serde(flatten)]
    pub faults: Faults,
}

/// What was replayed, and onto what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setup {
    /// The file; empty if it was none.
    pub file: String,
    /// The steering policy.
    pub policy: String,
    /// How many workers, in each equal part of the file.
    pub workers: Vec<u16>,
    /// Flow groups.
    pub groups: u32,
    /// The seed that repeats the replay.
    pub seed: u64,
    /// How many times as fast as it was captured; none: as fast as it went.
    pub speed: Option<f64>,
}

/// What was played, and when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Played {
    /// Packets that the data path received.
    pub packets: u64,
    /// Seconds between the earliest and the latest packet of the capture.
    pub capture_seconds: f64,
    /// The earliest, in seconds since 1970; none where the file does not tell.
    pub capture_start: Option<f64>,
    /// Seconds that the replay took.
    pub seconds: f64,
    /// Packets a second that it reached.
    pub packets_per_second: f64,
    /// The longest that a packet was played after it was due, in microseconds, at a recorded pace.
    pub late_max_us: Option<f64>,
    /// Whether the replay was ended before the file.
    pub interrupted: bool,
}

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Packets that the data path lost: neither done by a worker nor dropped for what they are.
    /// Always zero unless there is a bug.
    pub lost: u64,
    /// Packets that a worker had for the second time. Always zero unless there is a bug.
    pub duplicated: u64,
    /// Why nothing after some point of the file could be read; everything before it counts.
    pub damage: Option<String>,
}

/// The records of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Records {
    /// All, with or without a packet that could be played: the frames that tshark counts.
    pub total: u64,
    /// What they had on the wire.
    pub bytes: u64,
    /// What the file has of that.
    pub captured_bytes: u64,
    /// Shorter in the file than on the wire (`tcpdump -s`). They are played with lengths that say
    /// what is there.
    pub cut: u64,
    /// Longer than a frame of the data path. Their start is played in the same way.
    pub too_long: u64,
    /// Without a byte: not played.
    pub empty: u64,
    /// Ended within the header of their link: not played.
    pub headerless: u64,
    /// Of a kind of link that cannot be played.
    pub other_link: u64,
    /// The same by kind.
    pub other_links: Vec<LinkRecords>,
}

/// Records of one kind of link that cannot be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkRecords {
    /// Its number in the registry of link types; none: of an interface that the file lacks.
    pub link_type: Option<u16>,
    /// How many.
    pub records: u64,
}

/// Sums of one protocol and IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProtocolRow {
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// 4 or 6.
    pub ip: u8,
    /// Packets that workers had.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Directed 5-tuples.
    pub flows: u64,
    /// Both directions as one.
    pub conversations: u64,
}

/// What one worker had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerRow {
    /// Its id.
    pub worker: u16,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Flows whose last packet it had: they sum up to the flows that are tracked.
    pub flows: u64,
}

/// Flows, and what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flows {
    /// Directed 5-tuples that are told apart.
    pub tracked: u64,
    /// Both directions as one.
    pub conversations: u64,
    /// Packets of flows beyond the limit, whose order and moves nobody knows.
    pub untracked_packets: u64,
    /// Flows that more than one worker had packets of.
    pub moved: u64,
    /// How often a flow's packet was another worker's than the one before.
    pub moves: u64,
    /// Packets that a worker had after a younger one of the same flow. Zero for every policy but
    /// `shared`, which promises no order.
    pub reordered: u64,
}

/// The checksums of the flows' packets, as captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checksums {
    /// Right, or absent where that is allowed.
    pub right: u64,
    /// Left to the NIC: the capture was made on the sending host.
    pub unfinished: u64,
    /// Wrong.
    pub wrong: u64,
    /// They cover what the capture does not have.
    pub unknown: u64,
}

/// A counter of the dispatcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub help: &'static str,
    /// How many.
    pub value: u64,
}

/// A flow with many bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopFlow {
    /// Protocol, source and destination.
    pub flow: String,
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Who had the last one.
    pub worker: u16,
    /// How often that changed.
    pub moves: u32,
}

/// What is known at the end of a replay.
pub(crate) struct Found<'a> {
    pub(crate) tracker: Ref<'a, PacketTracker>,
    pub(crate) counters: CounterReader,
    pub(crate) played: u64,
    pub(crate) records: Records,
    pub(crate) checksums: Checksums,
    pub(crate) times: Option<(Nanos, Nanos)>,
    pub(crate) damage: Option<String>,
    pub(crate) latest: Option<Nanos>,
}

impl Report {
    pub(crate) fn new(
        options: &Options,
        found: Found<'_>,
        elapsed: Nanos,
        interrupted: bool,
    ) -> Self {
        let Found { tracker, counters, played, records, checksums, times, damage, latest } = found;
        let span = times.map_or(Nanos::ZERO, |(earliest, latest)| latest.since(earliest));
        let seconds = elapsed.as_secs_f64();
        let accounted = tracker.worked + dropped_for_what_they_are(&counters);
        let speed = match options.pace {
            Pace::Fast => None,
            Pace::Recorded { speed } => Some(speed),
        };
        Self {
            setup: Setup {
                file: String::new(),
                policy: options.policy.clone(),
                workers: options.workers.clone(),
                groups: options.groups,
                seed: options.seed,
                speed,
            },
            records,
            played: Played {
                packets: played,
                capture_seconds: span.as_secs_f64(),
                capture_start: times.map(|(earliest, _)| earliest.as_secs_f64()),
                seconds,
                packets_per_second: if seconds > 0.0 { played as f64 / seconds } else { 0.0 },
                late_max_us: latest.map(Nanos::as_micros_f64),
                interrupted,
            },
            protocols: protocols(&tracker),
            by_worker: by_worker(&tracker),
            flows: flows(&tracker),
            checksums,
            counters: counters
                .dispatch_events()
                .filter(|&(_, _, value)| value > 0)
                .map(|(name, help, value)| Counter { name, help, value })
                .collect(),
            top: top(&tracker, options.top),
            faults: Faults {
                lost: played.saturating_sub(accounted),
                duplicated: tracker.unexpected,
                damage,
            },
        }
    }

    /// The value of a counter of the dispatcher.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|counter| counter.name == name).map_or(0, |found| found.value)
    }

    /// Why the replay is no success, if it is none: a damaged file, or a data path that lost,
    /// doubled or reordered packets.
    pub fn failure(&self) -> Option<String> {
        let Faults { lost, duplicated, damage } = &self.faults;
        let reordered = if self.setup.policy == "shared" { 0 } else { self.flows.reordered };
        if lost + duplicated + reordered > 0 {
            return Some(format!(
                "the data path lost {lost} packets, had {duplicated} twice and reordered \
                 {reordered}: report this"
            ));
        }
        damage.as_ref().map(|damage| format!("{}: {damage}", self.setup.file))
    }
}
