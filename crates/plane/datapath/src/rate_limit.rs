//! At most a given number of events a second: the generic cell rate algorithm (ITU-T I.371), one
//! word.

use base::Nanos;

/// A limit on a rate, with a burst.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    /// Time that one event stands for; zero: no limit.
    interval: Nanos,
    /// How far ahead of the clock the events may run.
    burst: Nanos,
    /// When the next event would be due if they came evenly.
    due: Nanos,
}

impl RateLimit {
    /// `per_second` events (0: any number), up to `burst` of them at once.
    pub fn new(per_second: u32, burst: u32) -> Self {
        let interval = match per_second {
            0 => Nanos::ZERO,
            rate => Nanos(1_000_000_000 / u64::from(rate)),
        };
        let burst = Nanos(interval.0 * u64::from(burst.saturating_sub(1)));
        Self { interval, burst, due: Nanos::ZERO }
    }

    /// Whether one more event is within the limit.
    #[inline]
    pub fn allows(&self, now: Nanos) -> bool {
        self.due.0 <= now.0.saturating_add(self.burst.0)
    }

    /// Counts an event; false, and not counted, when it is beyond the limit.
    #[inline]
    pub fn take(&mut self, now: Nanos) -> bool {
        if !self.allows(now) {
            return false;
        }
        self.due = Nanos(self.due.0.max(now.0) + self.interval.0);
        true
    }

    /// When the next event will be within the limit.
    pub fn next(&self) -> Nanos {
        Nanos(self.due.0.saturating_sub(self.burst.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_second_has_more_than_the_rate_and_one_burst(
            gaps in proptest::collection::vec(0..2_000_000_u64, 1..2000),
            rate in 1..5000_u32, burst in 1..50_u32,
        ) {
            let mut limit = RateLimit::new(rate, burst);
            let mut now = Nanos::from_secs(1);
            let mut taken = Vec::new();
            for gap in gaps {
                now += Nanos(gap);
                let allowed = limit.allows(now);
                prop_assert_eq!(limit.take(now), allowed);
                if allowed { taken.push(now); } else { prop_assert!(limit.next() > now); }
            }
            for (at, first) in taken.iter().enumerate() {
                let within = taken[at..].iter().take_while(|t| t.0 < first.0 + 1_000_000_000);
                // The interval is rounded down to whole nanoseconds.
                prop_assert!(within.count() as u32 <= rate + rate / 1000 + burst + 1);
            }
        }
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let mut limit = RateLimit::new(0, 0);
        assert!((0..10_000).all(|_| limit.take(Nanos::ZERO)));
    }

    #[test]
    fn a_burst_passes_at_once_and_the_next_waits() {
        let mut limit = RateLimit::new(1000, 3);
        let now = Nanos::from_secs(5);
        assert_eq!(
            [limit.take(now), limit.take(now), limit.take(now), limit.take(now)],
            [true, true, true, false]
        );
        assert_eq!(limit.next(), now + Nanos::from_millis(1));
        assert!(limit.take(limit.next()));
    }
}
