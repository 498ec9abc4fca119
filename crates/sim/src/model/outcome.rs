//! What a run has shown.

use base::Nanos;
use load::Latencies;

/// One application during one step of the load.
#[derive(Clone, Debug, Default)]
pub struct AppOutcome {
    /// Packets that arrived in the step.
    pub offered: u64,
    /// Of these, packets that were answered.
    pub delivered: u64,
    /// Dropped because a ring was full.
    pub dropped: u64,
    /// From arrival to answer, what a client sees besides included.
    pub latency: Latencies,
    /// Packets done by another worker than their flow's last one.
    pub moved: u64,
    /// Packets that were done after a later one of their flow.
    pub reordered: u64,
    /// Packets that waited for a hand-over.
    pub held: u64,
    /// Packets taken from another worker's ring.
    pub stolen: u64,
    /// Cores that it was given.
    pub grants: u64,
    /// Core time that it has held.
    pub core_time: Nanos,
    /// First packets of a flow for which an exact table had no room.
    pub table_full: u64,
    /// Packets still there when the step ended: more than a few, and the load is more than is possible.
    pub unfinished: u64,
}

impl AppOutcome {
    /// Whether the load was more than could be served: what is left over at the end, and what was dropped,
    /// is a hundredth of it or more. Then a latency says how long the step was, and no more.
    pub fn is_saturated(&self) -> bool {
        (self.unfinished + self.dropped) * 100 > self.offered
    }
}

/// One step of the load.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// How long it was.
    pub length: Nanos,
    /// By application.
    pub apps: Vec<AppOutcome>,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// By step.
    pub steps: Vec<StepOutcome>,
    /// Events that were simulated.
    pub events: u64,
}
