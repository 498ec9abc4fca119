//! The waiting ladder: poll for as long as experience says it pays, then idle as configured.

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
pub(crate) enum Rung {
    /// Look again, after letting others on this CPU run.
    Yield,
    /// Look again at once.
    Spin,
    /// Arm the doorbell and sleep.
    Sleep,
}

/// How far up a loop is.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    idle: Idle,
    is_endless: bool,
    learned: shm::wait::Ladder,
    asleep_since: Option<Nanos>,
}

impl Ladder {
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
        let learned = shm::wait::Ladder::new(config);
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
    pub(crate) fn idle(&mut self, now: Nanos) -> Rung {
        match self.idle {
            Idle::Spin => Rung::Spin,
            Idle::Yield => Rung::Yield,
            // On a CPU of one's own a yield costs 0.2 us and returns at once; on a shared one it
            // lets the thread run that has the work.
            Idle::Sleep if self.is_endless => Rung::Yield,
            Idle::Sleep => match self.learned.nothing(now, false) {
                Step::Pause | Step::Yield => Rung::Yield,
                Step::Sleep => {
                    self.asleep_since.get_or_insert(now);
                    Rung::Sleep
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
    fn gaps(ladder: &mut Ladder, now: &mut Nanos, gap: u64, times: usize) -> usize {
        let mut sleeps = 0;
        for _ in 0..times {
            let due = *now + us(gap);
            while *now < due {
                match ladder.idle(*now) {
                    Rung::Sleep => {
                        sleeps += 1;
                        *now = due + WAKE_LATENCY;
                    }
                    _ => *now += us(1),
                }
            }
            ladder.busy(*now);
        }
        sleeps
    }

    #[test]
    fn a_loop_polls_for_its_budget_then_sleeps_and_work_starts_it_over() {
        let wait = Wait { spin_us: 50, idle: Idle::Sleep };
        let mut ladder = Ladder::new(&wait);
        assert_eq!(ladder.idle(us(1000)), Rung::Yield);
        assert_eq!(ladder.idle(us(1049)), Rung::Yield);
        assert_eq!(ladder.idle(us(1050)), Rung::Sleep);
        ladder.busy(us(1100));
        assert_eq!(ladder.idle(us(2000)), Rung::Yield);
    }

    #[test]
    fn gaps_that_are_always_long_are_slept_at_once_and_short_ones_polled_through_again() {
        let mut ladder = Ladder::new(&Wait { spin_us: 50, idle: Idle::Sleep });
        let mut now = us(1000);
        gaps(&mut ladder, &mut now, 1000, 64);
        assert_eq!(ladder.idle(now), Rung::Sleep, "no microsecond is burned");
        ladder.busy(now);
        gaps(&mut ladder, &mut now, 10, 600);
        assert_eq!(gaps(&mut ladder, &mut now, 10, 100), 0, "what came in a sleep was early");
    }

    #[test]
    fn a_budget_of_zero_sleeps_at_once_and_an_endless_one_never() {
        let rung = |spin_us, idle| Ladder::new(&Wait { spin_us, idle }).idle(Nanos::from_secs(9));
        assert_eq!(rung(0, Idle::Sleep), Rung::Sleep);
        assert_eq!(rung(-1, Idle::Sleep), Rung::Yield);
        assert_eq!(rung(0, Idle::Spin), Rung::Spin);
    }
}
