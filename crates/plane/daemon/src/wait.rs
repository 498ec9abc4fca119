//! What a loop without work does: polls for as long as experience says it pays, then idles as
//! configured.

use base::Nanos;
use config::{Idle, Spin, Wait};
use sched::{Step, WaitConfig};

/// What a wake-up costs on a halted CPU, the waker's part and the system calls included: a gap that
/// is shorter is polled through, one that is much longer slept at once.
const WAKE_COST: Nanos = Nanos::from_micros(60);

/// What came during a sleep came so long before it was seen.
const WAKE_LATENCY: Nanos = Nanos::from_micros(40);

/// What a loop without work does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleStep {
    /// Look again, after letting others on this CPU run.
    Yield,
    /// Look again at once.
    Spin,
    /// Arm the doorbell and sleep.
    Sleep,
}

/// The configured way to idle, over what was learned from past gaps.
#[derive(Clone, Debug)]
pub(crate) struct IdleStrategy {
    idle: Idle,
    is_endless: bool,
    learned: sched::WaitStrategy,
    asleep_since: Option<Nanos>,
}

impl IdleStrategy {
    pub(crate) fn new(wait: &Wait) -> Self {
        let (is_endless, spin_max) = match wait.spin() {
            Spin::Forever => (true, Nanos::ZERO),
            Spin::For(most) => (false, most),
        };
        let config = WaitConfig {
            spin_share_max: 1000,
            spin_max,
            wake_cost: WAKE_COST,
            ..WaitConfig::default()
        };
        let learned = sched::WaitStrategy::new(config);
        Self { idle: wait.idle, is_endless, learned, asleep_since: None }
    }

    /// There was work: start at the bottom again.
    #[inline]
    pub(crate) fn busy(&mut self, now: Nanos) {
        let came = match self.asleep_since.take() {
            Some(since) => since.max(Nanos(now.0.saturating_sub(WAKE_LATENCY.0))),
            None => now,
        };
        self.learned.found(came);
    }

    /// There was none.
    pub(crate) fn idle(&mut self, now: Nanos) -> IdleStep {
        match self.idle {
            Idle::Spin => IdleStep::Spin,
            Idle::Yield => IdleStep::Yield,
            // On a CPU of one's own a yield costs 0.2 us and returns at once; on a shared one it
            // lets the thread run that has the work.
            Idle::Sleep if self.is_endless => IdleStep::Yield,
            Idle::Sleep => match self.learned.nothing(now, false) {
                Step::Pause | Step::Yield => IdleStep::Yield,
                Step::Sleep => {
                    self.asleep_since.get_or_insert(now);
                    IdleStep::Sleep
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(micros: u64) -> Nanos {
        Nanos::from_micros(micros)
    }

    /// Polls for `gap`, one look a microsecond, then finds work; how often it slept.
    fn gaps(idle_strategy: &mut IdleStrategy, now: &mut Nanos, gap: u64, times: usize) -> usize {
        let mut sleeps = 0;
        for _ in 0..times {
            let due = *now + us(gap);
            while *now < due {
                match idle_strategy.idle(*now) {
                    IdleStep::Sleep => {
                        sleeps += 1;
                        *now = due + WAKE_LATENCY;
                    }
                    _ => *now += us(1),
                }
            }
            idle_strategy.busy(*now);
        }
        sleeps
    }

    #[test]
    fn a_loop_polls_for_its_budget_then_sleeps_and_work_starts_it_over() {
        let wait = Wait { spin_us: 50, idle: Idle::Sleep };
        let mut idle_strategy = IdleStrategy::new(&wait);
        assert_eq!(idle_strategy.idle(us(1000)), IdleStep::Yield);
        assert_eq!(idle_strategy.idle(us(1049)), IdleStep::Yield);
        assert_eq!(idle_strategy.idle(us(1050)), IdleStep::Sleep);
        idle_strategy.busy(us(1100));
        assert_eq!(idle_strategy.idle(us(2000)), IdleStep::Yield);
    }

    #[test]
    fn gaps_that_are_always_long_are_slept_at_once_and_short_ones_polled_through_again() {
        let mut idle_strategy = IdleStrategy::new(&Wait { spin_us: 50, idle: Idle::Sleep });
        let mut now = us(1000);
        gaps(&mut idle_strategy, &mut now, 1000, 64);
        assert_eq!(idle_strategy.idle(now), IdleStep::Sleep, "no microsecond is burned");
        idle_strategy.busy(now);
        gaps(&mut idle_strategy, &mut now, 10, 600);
        assert_eq!(
            gaps(&mut idle_strategy, &mut now, 10, 100),
            0,
            "what came in a sleep was early"
        );
    }

    #[test]
    fn a_budget_of_zero_sleeps_at_once_and_an_endless_one_never() {
        let idle_step =
            |spin_us, idle| IdleStrategy::new(&Wait { spin_us, idle }).idle(Nanos::from_secs(9));
        assert_eq!(idle_step(0, Idle::Sleep), IdleStep::Sleep);
        assert_eq!(idle_step(-1, Idle::Sleep), IdleStep::Yield);
        assert_eq!(idle_step(0, Idle::Spin), IdleStep::Spin);
    }
}
