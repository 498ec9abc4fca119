//! The wait strategy: poll for as long as experience says it pays, then idle as configured.

use base::Nanos;
use config::{Idle, Spin, Wait};
use shm::wait::{Step, WaitConfig};

/// What a wake-up costs on a halted CPU, the waker's part and the system calls included: a gap that
/// is shorter is polled through, one that is much longer slept at once.
const WAKE_COST: Nanos = Nanos::from_micros(60);

/// What came during a sleep came so long before it was seen.
const WAKE_LATENCY: Nanos = Nanos::from_micros(40);

/// What a loop without work does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitStep {
    /// Look again, after letting others on this CPU run.
    Yield,
    /// Look again at once.
    Spin,
    /// Arm the doorbell and sleep.
    Sleep,
}

/// How far up a loop is.
#[derive(Clone, Debug)]
pub(crate) struct WaitStrategy {
    idle: Idle,
    is_endless: bool,
    learned: shm::wait::WaitStrategy,
    asleep_since: Option<Nanos>,
}

impl WaitStrategy {
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
        let learned = shm::wait::WaitStrategy::new(config);
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
    pub(crate) fn idle(&mut self, now: Nanos) -> WaitStep {
        match self.idle {
            Idle::Spin => WaitStep::Spin,
            Idle::Yield => WaitStep::Yield,
            // On a CPU of one's own a yield costs 0.2 us and returns at once; on a shared one it
            // lets the thread run that has the work.
            Idle::Sleep if self.is_endless => WaitStep::Yield,
            Idle::Sleep => match self.learned.nothing(now, false) {
                Step::Pause | Step::Yield => WaitStep::Yield,
                Step::Sleep => {
                    self.asleep_since.get_or_insert(now);
                    WaitStep::Sleep
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
    fn gaps(wait_strategy: &mut WaitStrategy, now: &mut Nanos, gap: u64, times: usize) -> usize {
        let mut sleeps = 0;
        for _ in 0..times {
            let due = *now + us(gap);
            while *now < due {
                match wait_strategy.idle(*now) {
                    WaitStep::Sleep => {
                        sleeps += 1;
                        *now = due + WAKE_LATENCY;
                    }
                    _ => *now += us(1),
                }
            }
            wait_strategy.busy(*now);
        }
        sleeps
    }

    #[test]
    fn a_loop_polls_for_its_budget_then_sleeps_and_work_starts_it_over() {
        let wait = Wait { spin_us: 50, idle: Idle::Sleep };
        let mut wait_strategy = WaitStrategy::new(&wait);
        assert_eq!(wait_strategy.idle(us(1000)), WaitStep::Yield);
        assert_eq!(wait_strategy.idle(us(1049)), WaitStep::Yield);
        assert_eq!(wait_strategy.idle(us(1050)), WaitStep::Sleep);
        wait_strategy.busy(us(1100));
        assert_eq!(wait_strategy.idle(us(2000)), WaitStep::Yield);
    }

    #[test]
    fn gaps_that_are_always_long_are_slept_at_once_and_short_ones_polled_through_again() {
        let mut wait_strategy = WaitStrategy::new(&Wait { spin_us: 50, idle: Idle::Sleep });
        let mut now = us(1000);
        gaps(&mut wait_strategy, &mut now, 1000, 64);
        assert_eq!(wait_strategy.idle(now), WaitStep::Sleep, "no microsecond is burned");
        wait_strategy.busy(now);
        gaps(&mut wait_strategy, &mut now, 10, 600);
        assert_eq!(
            gaps(&mut wait_strategy, &mut now, 10, 100),
            0,
            "what came in a sleep was early"
        );
    }

    #[test]
    fn a_budget_of_zero_sleeps_at_once_and_an_endless_one_never() {
        let wait_step =
            |spin_us, idle| WaitStrategy::new(&Wait { spin_us, idle }).idle(Nanos::from_secs(9));
        assert_eq!(wait_step(0, Idle::Sleep), WaitStep::Sleep);
        assert_eq!(wait_step(-1, Idle::Sleep), WaitStep::Yield);
        assert_eq!(wait_step(0, Idle::Spin), WaitStep::Spin);
    }
}
