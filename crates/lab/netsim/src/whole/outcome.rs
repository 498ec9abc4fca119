//! What a run has found.

use base::Nanos;

use crate::link::LinkCounts;
use crate::quantile;

/// A run's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeOutcome {
    /// How long each request took, from its first byte handed over to its answer's last byte read;
    /// sorted.
    pub latencies: Vec<Nanos>,
    /// Requests that were to be answered.
    pub requests: u64,
    /// Bytes of answers that were not those of the request.
    pub wrong_bytes: u64,
    /// All links together, a packet counted at each that it passes.
    pub links: LinkCounts,
    /// Frames that the data path's port had no room for.
    pub port_full: u64,
    /// Segments that both sides have sent again.
    pub retransmitted: u64,
    /// Workers that a worker set lacked, at most: their numbers belonged to others that were still
    /// on their way out.
    pub workers_missing: u16,
    /// Flows that have moved to another worker with everything that belongs to them.
    pub flows_moved: u64,
    /// What the engines of the data path's workers have counted, by name.
    pub server: Vec<(&'static str, u64)>,
    /// What its dispatcher has counted, by name.
    pub dispatcher: Vec<(&'static str, u64)>,
    /// When the run ended.
    pub ended_at: Nanos,
    /// Turns of the data path.
    pub turns: u64,
    /// A sum over every frame that reached a client, all its bytes and its time: two runs with the
    /// same are the same.
    pub digest: u64,
}

impl WholeOutcome {
    /// The time within which this share of all answered requests was.
    pub fn latency(&self, share: f64) -> Option<Nanos> {
        quantile(&self.latencies, share)
    }
}
