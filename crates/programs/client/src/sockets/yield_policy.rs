//! What a program that has found nothing does: it lets others run for as long as its profile says,
//! then it sleeps. It decides; the time is an argument.

use attach::Profile;
use base::Nanos;

/// What a thread that has found nothing does before it looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Lets others on this CPU run: sched_yield(2).
    Yield,
    /// Sleeps until woken.
    Sleep,
}

/// One wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct YieldPolicy {
    yield_for: Nanos,
    since: Option<Nanos>,
}

impl YieldPolicy {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { yield_for: Nanos::from_micros(u64::from(profile.yield_us())), since: None }
    }

    /// Nothing was there at `now`.
    pub(crate) fn nothing(&mut self, now: Nanos) -> Step {
        let waited = now.since(*self.since.get_or_insert(now));
        if waited < self.yield_for { Step::Yield } else { Step::Sleep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_program_yields_for_its_time_and_then_sleeps() {
        let mut yield_policy = YieldPolicy::new(Profile::Latency);
        let start = Nanos::from_millis(5);
        assert_eq!(yield_policy.nothing(start), Step::Yield);
        assert_eq!(yield_policy.nothing(start + Nanos(9_999)), Step::Yield);
        assert_eq!(yield_policy.nothing(start + Nanos(10_000)), Step::Sleep);
    }

    #[test]
    fn other_programs_sleep_at_once() {
        for profile in [Profile::Throughput, Profile::Safe] {
            let mut yield_policy = YieldPolicy::new(profile);
            assert_eq!(yield_policy.nothing(Nanos::from_millis(5)), Step::Sleep);
        }
    }
}
