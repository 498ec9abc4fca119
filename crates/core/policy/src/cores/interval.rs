//! How often to look: as often as asked for, and never so often that looking is the load.

use base::Nanos;
use serde::{Deserialize, Serialize};

/// The time from tick to tick.
///
/// A tick is at most a tenth of its interval. The cost is followed slowly: up or down by an eighth
/// of what is believed, because a single tick that was descheduled says nothing about the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Interval {
    wanted_ns: u64,
    cost_ns: u64,
}

impl Interval {
    /// No shorter: a tick over two workers takes about a tenth of this.
    pub(super) const MIN: Nanos = Nanos::from_micros(1);
    /// No longer: here a policy is as slow as a daemon that looks at averages.
    pub(super) const MAX: Nanos = Nanos::from_millis(10);
    /// Intervals of its cost, at least.
    const COSTS: u64 = 10;
    /// A cost below this is not told from none.
    const COST_MIN_NS: u64 = 16;

    pub(super) fn new(wanted: Nanos) -> Self {
        Self { wanted_ns: wanted.0, cost_ns: Self::COST_MIN_NS }
    }

    /// A tick took so long.
    pub(super) fn learn(&mut self, cost: Nanos) {
        let believed = self.cost_ns;
        let step = (cost.0.min(believed.saturating_mul(2)).abs_diff(believed)).div_ceil(8);
        let next = if cost.0 > believed { believed.saturating_add(step) } else { believed - step };
        self.cost_ns = next.clamp(Self::COST_MIN_NS, Self::MAX.0);
    }

    pub(super) fn current(self) -> Nanos {
        let Self { wanted_ns, cost_ns } = self;
        Nanos(wanted_ns.max(cost_ns.saturating_mul(Self::COSTS)).clamp(Self::MIN.0, Self::MAX.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_steady_cost_is_soon_a_tenth_of_the_interval(
            wanted_us in 0..20_000_u64, cost_ns in 0..1_000_000_u64,
        ) {
            let wanted = Nanos::from_micros(wanted_us);
            let mut interval = Interval::new(wanted);
            for _ in 0..200 {
                interval.learn(Nanos(cost_ns));
            }
            let current = interval.current();
            prop_assert!(current >= Nanos(10 * cost_ns), "{current}");
            prop_assert!(current >= Interval::MIN && current <= Interval::MAX, "{current}");
            let asked = wanted.max(Nanos(10 * cost_ns.max(Interval::COST_MIN_NS)));
            let due = asked.clamp(Interval::MIN, Interval::MAX);
            prop_assert!(current.0 <= due.0 + due.0 / 8 + 80, "{current} instead of {due}");
        }
    }

    #[test]
    fn one_tick_that_was_descheduled_slows_the_next_ones_down_by_an_eighth() {
        let mut interval = Interval::new(Nanos::from_micros(1));
        for _ in 0..100 {
            interval.learn(Nanos(800));
        }
        let before = interval.current();
        interval.learn(Nanos::from_millis(4));
        assert!(interval.current().0 <= before.0 + before.0 / 8 + 10, "{}", interval.current());
    }

    #[test]
    fn a_tick_that_costs_more_than_a_millisecond_does_not_pass_the_longest_interval() {
        let mut interval = Interval::new(Nanos::ZERO);
        for _ in 0..1000 {
            interval.learn(Nanos(u64::MAX));
        }
        assert_eq!(interval.current(), Interval::MAX);
    }
}
