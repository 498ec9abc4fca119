//! The next step of a thread that has nothing to do. Pure: time in, step out.

use base::Nanos;

use crate::spin_budget::{SpinBudget, WaitConfig};

/// What to do before looking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Pause on this CPU for a moment.
    Pause,
    /// Let others on this CPU run.
    Yield,
    /// Sleep until woken.
    Sleep,
}

/// Where a consumer stands between "something was there" and "asleep".
#[derive(Clone, Debug)]
pub struct WaitStrategy {
    budget: SpinBudget,
    yield_max: Nanos,
    /// Since when nothing is there.
    dry_since: Option<Nanos>,
}

impl WaitStrategy {
    /// At its foot.
    pub fn new(config: WaitConfig) -> Self {
        Self { budget: SpinBudget::new(config), yield_max: config.yield_max, dry_since: None }
    }

    /// Something came at this time: when it was put in if that is known, else now.
    #[inline]
    pub fn found(&mut self, at: Nanos) {
        if let Some(since) = self.dry_since.take() {
            self.budget.learn(at.since(since));
        }
    }

    /// Nothing is there now. `is_owed`: a thread that needs this CPU will soon have something for
    /// us, and sleeping would only make it wake us.
    #[inline]
    pub fn nothing(&mut self, now: Nanos, is_owed: bool) -> Step {
        let dry = now.since(*self.dry_since.get_or_insert(now));
        let budget = self.budget.budget();
        if is_owed && dry < self.yield_max {
            Step::Yield
        } else if dry < budget {
            Step::Pause
        } else {
            Step::Sleep
        }
    }

    /// What was learned, to teach it what a wake-up costs and to show it.
    pub fn budget(&mut self) -> &mut SpinBudget {
        &mut self.budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pauses_for_the_budget_and_then_sleeps_until_something_comes() {
        let mut wait_strategy = WaitStrategy::new(WaitConfig::default());
        let budget = wait_strategy.budget().budget();
        let start = Nanos(1_000_000);
        assert_eq!(wait_strategy.nothing(start, false), Step::Pause);
        assert_eq!(wait_strategy.nothing(Nanos(start.0 + budget.0 - 1), false), Step::Pause);
        assert_eq!(wait_strategy.nothing(start + budget, false), Step::Sleep);
        assert_eq!(wait_strategy.nothing(start + budget + budget, false), Step::Sleep);
        wait_strategy.found(start + Nanos::from_millis(1));
        assert_eq!(wait_strategy.nothing(start + Nanos::from_millis(1), false), Step::Pause);
    }

    #[test]
    fn who_is_owed_something_yields_and_sleeps_only_after_a_bound() {
        let mut wait_strategy = WaitStrategy::new(WaitConfig::default());
        let bound = WaitConfig::default().yield_max;
        assert_eq!(wait_strategy.nothing(Nanos(0), true), Step::Yield);
        assert_eq!(wait_strategy.nothing(Nanos(bound.0 - 1), true), Step::Yield);
        assert_eq!(wait_strategy.nothing(bound, true), Step::Sleep);
    }

    #[test]
    fn only_the_gap_before_the_first_item_is_learned() {
        let mut wait_strategy =
            WaitStrategy::new(WaitConfig { spin_share_max: 1000, ..WaitConfig::default() });
        let mut now = Nanos::ZERO;
        for _ in 0..64 {
            wait_strategy.nothing(now, false);
            now += Nanos(500);
            wait_strategy.found(now);
            // Busy for long, which is no gap.
            now += Nanos::from_millis(1);
            wait_strategy.found(now);
        }
        let budget = wait_strategy.budget().budget();
        assert!(budget >= Nanos(500) && budget <= Nanos(1_000), "{budget}");
    }
}
