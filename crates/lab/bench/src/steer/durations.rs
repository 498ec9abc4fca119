//! How long the turns of a data loop take, in a histogram that never allocates.

use base::Nanos;

/// What the issue allows a policy change to take the data loop away.
pub(super) const STALL: Nanos = Nanos::from_micros(100);

/// Durations of the data loop's turns.
pub(super) struct Durations {
    /// By hundred nanoseconds; the last one is everything longer.
    counts: Vec<u64>,
    pub(super) longest: Nanos,
    /// Longer than [`STALL`] by the clock.
    pub(super) long: u64,
    /// Longer than [`STALL`] by the thread's own CPU time.
    pub(super) long_of_own: u64,
    /// The longest of those, and packets that left the hold queue in it.
    pub(super) worst_own: (Nanos, usize),
}

impl Durations {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; 20_000],
            longest: Nanos::ZERO,
            long: 0,
            long_of_own: 0,
            worst_own: (Nanos::ZERO, 0),
        }
    }

    pub(super) fn note(&mut self, length: Nanos) {
        let last = self.counts.len() - 1;
        self.counts[((length.0 / 100) as usize).min(last)] += 1;
        self.longest = self.longest.max(length);
    }

    /// Microseconds that a share of `share` of the turns stays below.
    pub(super) fn quantile_us(&self, share: f64) -> f64 {
        let all: u64 = self.counts.iter().sum();
        let mut left = (all as f64 * (1.0 - share)) as u64;
        for (index, &count) in self.counts.iter().enumerate().rev() {
            if count > left {
                return (index + 1) as f64 / 10.0;
            }
            left -= count;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_end_of_the_class_that_holds_it() {
        let mut durations = Durations::new();
        for _ in 0..998 {
            durations.note(Nanos(150));
        }
        durations.note(Nanos::from_micros(50));
        durations.note(Nanos::from_secs(1));
        assert_eq!(durations.quantile_us(0.5), 0.2);
        assert_eq!(durations.quantile_us(0.9985), 50.1);
        assert_eq!(durations.longest, Nanos::from_secs(1));
    }
}
