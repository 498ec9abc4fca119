//! The waiting ladder: poll for a while, then idle as configured.

use base::Nanos;
use config::{Idle, Spin, Wait};

/// What a loop without work does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// Look again, after letting others on this CPU run.
    Yield,
    /// Look again at once.
    Spin,
    /// Arm the bell and sleep.
    Sleep,
}

/// How far up a loop is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ladder {
    spin: Spin,
    idle: Idle,
    idle_since: Option<Nanos>,
}

impl Ladder {
    pub(crate) fn new(wait: &Wait) -> Self {
        Self { spin: wait.spin(), idle: wait.idle, idle_since: None }
    }

    /// There was work: start at the bottom again.
    #[inline]
    pub(crate) fn busy(&mut self) {
        self.idle_since = None;
    }

    /// There was none.
    pub(crate) fn idle(&mut self, now: Nanos) -> Rung {
        let since = *self.idle_since.get_or_insert(now);
        let polls = match self.spin {
            Spin::Forever => true,
            Spin::For(length) => now.since(since) < length,
        };
        match self.idle {
            Idle::Spin => Rung::Spin,
            Idle::Yield => Rung::Yield,
            // On a CPU of one's own a yield costs 0.2 us and returns at once; on a shared one it
            // lets the thread run that has the work.
            Idle::Sleep if polls => Rung::Yield,
            Idle::Sleep => Rung::Sleep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_polls_for_its_budget_then_sleeps_and_work_starts_it_over() {
        let wait = Wait { spin_us: 50, idle: Idle::Sleep };
        let mut ladder = Ladder::new(&wait);
        assert_eq!(ladder.idle(Nanos::from_micros(1000)), Rung::Yield);
        assert_eq!(ladder.idle(Nanos::from_micros(1049)), Rung::Yield);
        assert_eq!(ladder.idle(Nanos::from_micros(1050)), Rung::Sleep);
        ladder.busy();
        assert_eq!(ladder.idle(Nanos::from_micros(2000)), Rung::Yield);
    }

    #[test]
    fn a_budget_of_zero_sleeps_at_once_and_an_endless_one_never() {
        let rung = |spin_us, idle| Ladder::new(&Wait { spin_us, idle }).idle(Nanos::from_secs(9));
        assert_eq!(rung(0, Idle::Sleep), Rung::Sleep);
        assert_eq!(rung(-1, Idle::Sleep), Rung::Yield);
        assert_eq!(rung(0, Idle::Spin), Rung::Spin);
    }
}
