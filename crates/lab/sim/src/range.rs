//! A measured number with its range, and which of its values a run takes.

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

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Median => "median",
            Self::High => "high",
        }
    }
}

impl Range {
    /// No time at all.
    pub const FREE: Self = Self::exactly(Nanos::ZERO);

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
