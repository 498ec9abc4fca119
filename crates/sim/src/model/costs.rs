//! What each thing costs, as measured, with its range.

use base::Nanos;

/// A measured duration: the median of its rounds and their extremes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least that a round found.
    pub low: Nanos,
    /// The median.
    pub median: Nanos,
    /// The most.
    pub high: Nanos,
}

/// Which of them a run takes: three runs make a band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Everything at its least.
    Low,
    /// Everything at its median.
    #[default]
    Median,
    /// Everything at its most.
    High,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Low, Self::Median, Self::High];
}

impl Range {
    /// The same whatever the level.
    pub const fn exactly(nanos: Nanos) -> Self {
        Self { low: nanos, median: nanos, high: nanos }
    }

    /// From three numbers of nanoseconds.
    pub const fn nanos(low: u64, median: u64, high: u64) -> Self {
        Self { low: Nanos(low), median: Nanos(median), high: Nanos(high) }
    }

    /// The value of a level.
    pub const fn at(&self, level: Level) -> Nanos {
        match level {
            Level::Low => self.low,
            Level::Median => self.median,
            Level::High => self.high,
        }
    }
}

/// What the parts of the data plane take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The dispatcher, for each packet: parse, hash, one look at the owner table, a ring.
    pub dispatch: Range,
    /// A look into an exact table of flows, for each packet.
    pub flow_lookup: Range,
    /// A first packet's insertion into it.
    pub flow_insert: Range,
    /// A line of log for each packet that such a table has no room for.
    pub flow_log: Range,
    /// A worker, for each packet, besides what the application does.
    pub packet: Range,
    /// A flow's state is in another core's cache.
    pub cold: Range,
    /// From the grant of a core to the worker's first packet.
    pub wake: Range,
    /// The core had another application's worker before.
    pub switch: Range,
    /// A packet taken from another worker's ring.
    pub steal: Range,
    /// A worker without anything to do looks for so long before it parks.
    pub spin: Range,
    /// From a worker that is told to park to the core being free.
    pub revoke: Range,
    /// What a client sees besides: wire, NIC, its own stack.
    pub outside: Range,
}

impl Default for Costs {
    /// What this project's benchmarks found on two virtual CPUs: medians with the ranges of their rounds.
    fn default() -> Self {
        Self {
            dispatch: Range::nanos(37, 41, 49),
            flow_lookup: Range::nanos(35, 60, 110),
            flow_insert: Range::nanos(180, 320, 650),
            flow_log: Range::nanos(1_500, 4_000, 10_000),
            packet: Range::nanos(400, 600, 900),
            cold: Range::nanos(150, 400, 1_200),
            wake: Range::nanos(3_000, 5_000, 8_000),
            switch: Range::nanos(500, 1_000, 2_000),
            steal: Range::nanos(150, 250, 400),
            spin: Range::exactly(Nanos::from_micros(2)),
            revoke: Range::nanos(2_000, 5_000, 10_000),
            outside: Range::nanos(5_000, 5_900, 8_000),
        }
    }
}
