//! How long to spin before a sleep, learned from the gaps of the recent past. Pure: gaps in, budget
//! out.
//!
//! For each budget the recent gaps say what it would have cost: a gap that is no longer is spun
//! away, a longer one costs the budget and a wake-up. The cheapest wins, among those that would
//! have burned no more than the share of the time that may be burned. So gaps much longer than a
//! wake-up are slept at once, short ones are never slept, and of a mixture the short ones only are
//! spun.

use base::Nanos;

/// What spinning may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitConfig {
    /// Thousandths of the time that may go into spinning: 1000 on a core of its own; 0 where
    /// somebody else needs the CPU.
    pub spin_share_max: u16,
    /// No spin is longer.
    pub spin_max: Nanos,
    /// What a sleep costs, waker and sleeper together, until it is measured.
    pub wake_cost: Nanos,
    /// A thread that shares this CPU is yielded to for this long before a sleep, while it owes
    /// something.
    pub yield_max: Nanos,
}

impl Default for WaitConfig {
    fn default() -> Self {
        Self {
            spin_share_max: 250,
            // Twice a wake-up: beyond it no distribution of gaps makes a spin pay.
            spin_max: Nanos::from_micros(100),
            wake_cost: Nanos::from_micros(40),
            // As long as an application that was just given work needs to answer, and some more.
            yield_max: Nanos::from_micros(50),
        }
    }
}

/// Lengths that are told apart: half octaves from 64 ns to 786 us.
const STEPS: usize = 28;
/// Gaps after which what was learned counts half.
const MEMORY: u32 = 64;
/// Gaps from choice to choice, and before the first.
const CHOOSE: u32 = 16;
/// A longer gap counts as this long: all that matters is that it is long.
const GAP_MAX: Nanos = Nanos::from_secs(1);

/// The gaps of the recent past and the budget that would have served them best.
#[derive(Clone, Debug)]
pub struct SpinBudget {
    config: WaitConfig,
    /// By step, and one for all that is longer: weight (a new gap is [`UNIT`]) and the lengths'
    /// sum.
    gaps: [(u64, u64); STEPS + 1],
    wake_cost: Nanos,
    learned: u32,
    budget: Nanos,
}

/// The weight of a new gap: halved often enough, it is gone.
const UNIT: u64 = 64;

/// The longest gap of a step.
const fn edge_ns(step: usize) -> u64 {
    let octave = if step.is_multiple_of(2) { 64 } else { 96 };
    octave << (step / 2)
}

impl SpinBudget {
    /// Nothing is known yet: spins for as long as a wake-up takes, which is never worse than twice
    /// the best.
    pub fn new(config: WaitConfig) -> Self {
        let mut new = Self {
            config,
            gaps: [(0, 0); STEPS + 1],
            wake_cost: config.wake_cost,
            learned: 0,
            budget: Nanos::ZERO,
        };
        if config.spin_share_max > 0 {
            new.budget = config.wake_cost.min(config.spin_max);
        }
        new
    }

    /// How long to spin now.
    #[inline]
    pub fn budget(&self) -> Nanos {
        self.budget
    }

    /// From the moment at which nothing was left, so long passed until something came.
    pub fn learn(&mut self, gap: Nanos) {
        let gap = gap.min(GAP_MAX).0;
        let step = (0..STEPS).find(|&step| gap <= edge_ns(step)).unwrap_or(STEPS);
        // What is there at once is found by the last look before a sleep, whatever the budget.
        if gap > 0 {
            let (weight, sum) = &mut self.gaps[step];
            *weight += UNIT;
            *sum += UNIT * gap;
        }
        self.learned = self.learned.wrapping_add(1);
        if self.learned.is_multiple_of(MEMORY) {
            for (weight, sum) in &mut self.gaps {
                // The mean of a step stays as it is.
                let half = *weight / 2;
                *sum = if half == 0 { 0 } else { *sum / *weight * half };
                *weight = half;
            }
        }
        if self.learned.is_multiple_of(CHOOSE) {
            self.choose();
        }
    }

    /// A wake-up was measured. Followed slowly, and a single long one hardly at all.
    pub fn learn_wake(&mut self, cost: Nanos) {
        let believed = self.wake_cost.0;
        let cost = cost.0.min(believed.saturating_mul(2));
        self.wake_cost = Nanos(believed - believed / 8 + cost / 8);
    }

    /// What a wake-up costs, as far as is known.
    pub fn wake_cost(&self) -> Nanos {
        self.wake_cost
    }

    fn choose(&mut self) {
        let all = |which: fn(&(u64, u64)) -> u64| self.gaps.iter().map(which).sum::<u64>();
        let (weight, total) = (all(|gap| gap.0), all(|gap| gap.1));
        let may_spin = u128::from(total) * u128::from(self.config.spin_share_max) / 1000;
        let mut best = (u128::from(weight) * u128::from(self.wake_cost.0), Nanos::ZERO);
        let (mut longer, mut spun) = (weight, 0);
        for (step, &(weight, sum)) in self.gaps[..STEPS].iter().enumerate() {
            let edge = edge_ns(step);
            if edge > self.config.spin_max.0 {
                break;
            }
            longer -= weight;
            spun += sum;
            let burned = u128::from(spun) + u128::from(longer) * u128::from(edge);
            let cost = burned + u128::from(longer) * u128::from(self.wake_cost.0);
            if burned <= may_spin && cost < best.0 {
                best = (cost, Nanos(edge));
            }
        }
        self.budget = best.1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn learned(config: WaitConfig, gaps: impl IntoIterator<Item = u64>) -> Nanos {
        let mut budget = SpinBudget::new(config);
        gaps.into_iter().for_each(|gap| budget.learn(Nanos(gap)));
        budget.budget()
    }

    fn alone() -> WaitConfig {
        WaitConfig { spin_share_max: 1000, ..WaitConfig::default() }
    }

    #[test]
    fn gaps_shorter_than_a_wake_up_are_spun_and_much_longer_ones_slept_at_once() {
        let short = learned(alone(), [20_000; 64]);
        assert!(short >= Nanos(20_000) && short <= Nanos(30_000), "{short}");
        assert_eq!(learned(alone(), [1_000_000; 64]), Nanos::ZERO);
    }

    #[test]
    fn of_a_mixture_only_the_short_gaps_are_spun() {
        let mixed = (0..640).map(|at| if at % 10 == 0 { 1_000_000 } else { 1_000 });
        let budget = learned(alone(), mixed);
        assert!(budget >= Nanos(1_000) && budget <= Nanos(2_000), "{budget}");
    }

    #[test]
    fn steady_gaps_of_ten_microseconds_are_slept_where_only_a_quarter_may_be_burned() {
        assert_eq!(learned(WaitConfig::default(), [10_000; 64]), Nanos::ZERO);
        assert!(learned(alone(), [10_000; 64]) >= Nanos(10_000));
    }

    #[test]
    fn nobody_spins_where_no_share_is_left_for_it() {
        let shared = WaitConfig { spin_share_max: 0, ..WaitConfig::default() };
        assert_eq!(SpinBudget::new(shared).budget(), Nanos::ZERO);
        assert_eq!(learned(shared, [100; 200]), Nanos::ZERO);
    }

    #[test]
    fn another_time_is_learned_within_some_hundred_gaps() {
        let mut budget = SpinBudget::new(alone());
        (0..5000).for_each(|_| budget.learn(Nanos(1_000)));
        assert!(budget.budget() >= Nanos(1_000));
        (0..600).for_each(|_| budget.learn(Nanos(500_000)));
        assert_eq!(budget.budget(), Nanos::ZERO);
        (0..600).for_each(|_| budget.learn(Nanos(1_000)));
        assert!(budget.budget() >= Nanos(1_000));
    }

    #[test]
    fn a_wake_up_that_costs_more_makes_longer_gaps_worth_spinning() {
        let mut budget = SpinBudget::new(alone());
        let gaps = |budget: &mut SpinBudget| {
            for at in 0..320 {
                budget.learn(Nanos(if at % 2 == 0 { 60_000 } else { 90_000 }));
            }
            budget.budget()
        };
        assert_eq!(gaps(&mut budget), Nanos::ZERO);
        (0..40).for_each(|_| budget.learn_wake(Nanos::from_micros(200)));
        assert!(gaps(&mut budget) >= Nanos(90_000));
        budget.learn_wake(Nanos(u64::MAX));
    }

    #[test]
    fn what_comes_at_once_is_no_reason_to_spin() {
        let mixed = (0..640).map(|at| if at % 2 == 0 { 1_000_000 } else { 0 });
        assert_eq!(learned(alone(), mixed), Nanos::ZERO);
    }

    proptest! {
        #[test]
        fn no_other_budget_would_have_been_cheaper_within_the_share(
            gaps in proptest::collection::vec(prop_oneof![Just(0), 0..300_000_u64], CHOOSE as usize * 3),
            spin_share_max in 0..=1000_u16, wake_us in 1..100_u64,
        ) {
            let wake_cost = Nanos::from_micros(wake_us);
            let config = WaitConfig { spin_share_max, wake_cost, ..WaitConfig::default() };
            // Fewer than are ever forgotten, so the oracle needs no weights.
            let budget = learned(config, gaps.iter().copied()).0;
            let burned = |budget: u64| gaps.iter().map(|&gap| gap.min(budget)).sum::<u64>();
            let slept = |budget: u64| gaps.iter().filter(|&&gap| gap > budget).count() as u64;
            let cost = |budget: u64| burned(budget) + slept(budget) * wake_cost.0;
            let share = |budget: u64| burned(budget) * 1000
                <= gaps.iter().sum::<u64>() * u64::from(spin_share_max);
            prop_assert!(share(budget), "{budget}");
            let edges = (0..STEPS).map(edge_ns).filter(|&edge| edge <= config.spin_max.0);
            for other in edges.chain([0]) {
                prop_assert!(!share(other) || cost(budget) <= cost(other), "{budget} {other}");
            }
        }

        #[test]
        fn any_gap_can_be_learned(gaps in proptest::collection::vec(any::<u64>(), 0..500)) {
            let budget = learned(alone(), gaps);
            prop_assert!(budget <= alone().spin_max);
        }
    }
}
