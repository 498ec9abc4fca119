//! What a run has found.

use base::Nanos;

use crate::link::LinkCounts;
use crate::{Depths, jain, quantile};

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOutcome {
    /// When it began.
    pub begins: Nanos,
    /// Bytes that it was to carry; none: it had no end.
    pub bytes: Option<u64>,
    /// Bytes that the receiver has read, each checked.
    pub received: u64,
    /// Those read in the span that is measured.
    pub measured: u64,
    /// From its beginning, the handshake included, until the last byte was read; none: it did not
    /// end in time.
    pub took: Option<Nanos>,
}

/// What waited at the switches at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub at: Nanos,
    /// Bytes in the longest queue.
    pub deepest: u32,
    /// Bytes in all queues.
    pub all: u64,
}

/// A run's outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct NetOutcome {
    /// The flows, in the order in which they began.
    pub flows: Vec<FlowOutcome>,
    /// All links together, a packet counted at each that it passes.
    pub links: LinkCounts,
    /// Queues of leaf ports at which hosts are, as packets find them that come.
    pub edge: Depths,
    /// Queues between leaves and spines, likewise.
    pub inside: Depths,
    /// The queues over time.
    pub over_time: Vec<Look>,
    /// Segments that engines sent.
    pub segments: u64,
    /// Segments that engines took in.
    pub segments_received: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Windows that fell for a mark.
    pub marks_heeded: u64,
    /// Received segments that took the engine's fast path.
    pub fast: u64,
    /// Bytes that did not read as they were written: none, unless something is very wrong.
    pub wrong_bytes: u64,
    /// Packets on their way when the run ended.
    pub on_their_way: u64,
    /// When the run ended.
    pub ended_at: Nanos,
    /// Events of the run.
    pub events: u64,
    /// A sum over every packet's arrival, header and time: two runs with the same are the same run.
    pub digest: u64,
}

impl NetOutcome {
    /// Flows that ended.
    pub fn completed(&self) -> usize {
        self.flows.iter().filter(|flow| flow.took.is_some()).count()
    }

    /// Flow completion times of those that carried a number of bytes that `of` picks, sorted. Flows
    /// that did not end are missing: see [`Self::completed`].
    pub fn completions(&self, of: impl Fn(u64) -> bool) -> Vec<Nanos> {
        let picked = self.flows.iter().filter(|flow| flow.bytes.is_some_and(&of));
        let mut took: Vec<Nanos> = picked.filter_map(|flow| flow.took).collect();
        took.sort_unstable();
        took
    }

    /// The completion time that this share of all ended flows does not exceed.
    pub fn completion(&self, share: f64) -> Option<Nanos> {
        quantile(&self.completions(|_| true), share)
    }

    /// When the last flow ended, counted from the beginning of the first; nothing unless all ended.
    pub fn makespan(&self) -> Option<Nanos> {
        let first = self.flows.iter().map(|flow| flow.begins).min()?;
        let ends = self.flows.iter().map(|flow| Some(flow.begins + flow.took?));
        Some(ends.collect::<Option<Vec<_>>>()?.into_iter().max()?.since(first))
    }

    /// Jain's index over what flows got in the span that is measured, or, where flows end, over
    /// bytes by completion time. It says something where flows are alike.
    pub fn fairness(&self) -> Option<f64> {
        let share = |flow: &FlowOutcome| match (flow.bytes, flow.took) {
            (None, _) => flow.measured as f64,
            (Some(bytes), Some(took)) => bytes as f64 / took.0.max(1) as f64,
            (Some(_), None) => 0.0,
        };
        jain(self.flows.iter().map(share))
    }

    /// Payload that all flows got in the span that is measured, in bits a second; flows that end:
    /// until the end of the run.
    pub fn goodput(&self, span: Nanos) -> f64 {
        let bytes: u64 = self.flows.iter().map(|flow| flow.measured).sum();
        bytes as f64 * 8.0 / span.as_secs_f64()
    }
}
