//! What a run has shown: step by step, application by application.

use base::Nanos;

use crate::Histogram;

/// Packets left over that say nothing: a queue of that length comes and goes.
const PASSING: u64 = 64;

/// One application during one step of the load.
///
/// Nothing gets lost: what was there at the begin and what was offered has been delivered, dropped,
/// or is unfinished at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppOutcome {
    /// Packets that were there when the step began.
    pub at_begin: u64,
    /// Packets that arrived in the step.
    pub offered: u64,
    /// Packets that were answered in it.
    pub delivered: u64,
    /// Dropped: the dispatcher's port or a ring was full, or nobody was there.
    pub dropped: u64,
    /// Packets still there when the step ended.
    pub unfinished: u64,
    /// From arrival to answer, what a client sees besides included.
    pub latency: Histogram,
    /// Packets that another worker did than their flow's last one.
    pub moved_packets: u64,
    /// Flows that this happened to at least once in the step.
    pub moved_flows: u64,
    /// Packets that were done on another core than their flow's last one, and paid for it.
    pub cold_packets: u64,
    /// Packets that were done after a later one of their flow.
    pub reordered: u64,
    /// Packets that waited for a hand-over.
    pub held: u64,
    /// Packets taken from another worker's ring.
    pub stolen: u64,
    /// Cores that it was given.
    pub grants: u64,
    /// Times that it was told to give a core back, or that one was taken away.
    pub revokes: u64,
    /// Core time that it has held.
    pub core_time: Nanos,
    /// Of this, the time in which it did something: packets, or, for a batch job, its work.
    pub busy_time: Nanos,
    /// Packets of a flow for which an exact table had no room.
    pub table_full: u64,
    /// Flows that ended, each followed by a new one.
    pub replaced_flows: u64,
}

impl AppOutcome {
    /// Whether the load was more than could be served: a hundredth of it or more was dropped, or
    /// has come and not been done. Then a latency says how long the step was, and no more.
    pub fn is_saturated(&self) -> bool {
        let undone = self.dropped + self.unfinished.saturating_sub(self.at_begin);
        undone > PASSING && undone * 100 > self.offered
    }

    /// Packets a second that were answered in a step of that length.
    pub fn throughput(&self, length: Nanos) -> f64 {
        self.delivered as f64 / length.as_secs_f64()
    }

    /// Cores that it held in a step of that length, on average.
    pub fn cores(&self, length: Nanos) -> f64 {
        self.core_time.as_secs_f64() / length.as_secs_f64()
    }

    /// Adds what another application did in the same step.
    pub fn add(&mut self, other: &Self) {
        // Every field by name, so that a new one cannot be forgotten here.
        let Self {
            at_begin,
            offered,
            delivered,
            dropped,
            unfinished,
            latency,
            moved_packets,
            moved_flows,
            cold_packets,
            reordered,
            held,
            stolen,
            grants,
            revokes,
            core_time,
            busy_time,
            table_full,
            replaced_flows,
        } = other;
        self.at_begin += at_begin;
        self.offered += offered;
        self.delivered += delivered;
        self.dropped += dropped;
        self.unfinished += unfinished;
        self.latency.add(latency);
        self.moved_packets += moved_packets;
        self.moved_flows += moved_flows;
        self.cold_packets += cold_packets;
        self.reordered += reordered;
        self.held += held;
        self.stolen += stolen;
        self.grants += grants;
        self.revokes += revokes;
        self.core_time += *core_time;
        self.busy_time += *busy_time;
        self.table_full += table_full;
        self.replaced_flows += replaced_flows;
    }
}

/// One step of the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutcome {
    /// When it began.
    pub begin: Nanos,
    /// How long it was.
    pub length: Nanos,
    /// By application.
    pub apps: Vec<AppOutcome>,
    /// How long the dispatcher was at work.
    pub dispatcher: Nanos,
    /// Looks at the cores: control ticks, and calls between two of them.
    pub ticks: u64,
}

impl StepOutcome {
    /// All applications together.
    pub fn total(&self) -> AppOutcome {
        self.apps.iter().fold(AppOutcome::default(), |mut sum, app| {
            sum.add(app);
            sum
        })
    }
}

/// A run: its steps are the series over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By step.
    pub steps: Vec<StepOutcome>,
    /// Events that were simulated.
    pub events: u64,
    /// Of these, events in the life of a packet: it arrives, it is dispatched, it is done.
    pub packet_events: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_more_than_can_be_served_when_much_of_it_is_left_or_dropped() {
        let app = |offered, dropped, at_begin, unfinished| AppOutcome {
            offered,
            dropped,
            at_begin,
            unfinished,
            ..AppOutcome::default()
        };
        assert!(!app(10_000, 50, 0, 50).is_saturated());
        assert!(app(10_000, 50, 0, 51).is_saturated());
        assert!(!app(10_000, 0, 500, 600).is_saturated(), "it was there before");
        assert!(!app(100, 0, 0, 60).is_saturated(), "a short step ends with a short queue");
    }
}
