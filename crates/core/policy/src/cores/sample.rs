//! What the shell has measured since the last tick: active workers only, so that idle ones are
//! free.

use base::{AppId, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use crate::number;

/// All active workers at one control tick.
///
/// Much of it comes from memory that applications write. Nothing in it can harm anybody but the
/// application that violates the protocol: the most it gains is what it may have in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoresSample {
    /// When it was taken.
    #[serde(with = "number::nanos")]
    pub now: Nanos,
    /// What gathering the sample before this one and deciding on it took.
    #[serde(with = "number::nanos")]
    pub cost: Nanos,
    /// The workers that hold a core, in any order, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<BusyWorker>,
    /// Applications that want a core though no running worker shows it: a parked worker has a
    /// packet or a timer that is due; a batch job always.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "number::apps")]
    pub waiting: Vec<AppId>,
}

/// A worker that holds a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusyWorker {
    /// Which.
    #[serde(with = "number::worker")]
    pub id: WorkerId,
    /// The ring of packets to it.
    pub packets: Progress,
    /// Its queue of tasks; all zero when it has none.
    #[serde(default)]
    pub tasks: Progress,
    /// How long the oldest item of both has waited; zero when there is none.
    #[serde(default, with = "number::nanos")]
    pub oldest: Nanos,
    /// How long it has found nothing to do, all its life.
    #[serde(default, with = "number::nanos")]
    pub idle: Nanos,
}

/// How far a queue has come: two counters that only grow and wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Items ever put in.
    pub put: u32,
    /// Items ever taken out.
    pub taken: u32,
}

impl Progress {
    /// Whether something is in it.
    #[inline]
    pub const fn is_waiting(self) -> bool {
        self.put != self.taken
    }
}
