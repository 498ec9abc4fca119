//! A token bucket: so much a second, and so much at once after a pause.

use base::Nanos;

/// How fast a bucket fills and how much it holds, in units that its user chooses (packets, bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    per_second: u64,
    /// Units times 10^9.
    full: u64,
}

impl Rate {
    /// `per_second` units a second and `burst` units at once, 2^34 at most.
    pub(crate) const fn new(per_second: u64, burst: u64) -> Self {
        Self { per_second, full: burst.saturating_mul(NANO) }
    }
}

/// A bucket; its [`Rate`] is kept apart, because many share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// What is in it: units times 10^9, so that a nanosecond adds the rate and nothing is rounded.
    level: u64,
    /// When that was so.
    at: Nanos,
}

const NANO: u64 = 1_000_000_000;

impl Bucket {
    /// A full one.
    pub(crate) const fn full(rate: &Rate, now: Nanos) -> Self {
        Self { level: rate.full, at: now }
    }

    /// Takes `units` out; false, and nothing taken, when there are not as many. A clock that steps back
    /// adds nothing.
    #[inline]
    pub(crate) const fn take(&mut self, rate: &Rate, units: u64, now: Nanos) -> bool {
        let elapsed = now.since(self.at).0;
        if elapsed > 0 {
            let added = elapsed.saturating_mul(rate.per_second);
            let level = self.level.saturating_add(added);
            self.level = if level > rate.full { rate.full } else { level };
            self.at = now;
        }
        match self.level.checked_sub(units.saturating_mul(NANO)) {
            Some(level) => {
                self.level = level;
                true
            }
            None => false,
        }
    }

    /// Whether it is full again: a new one would be no different.
    #[inline]
    pub(crate) const fn is_full(&self, rate: &Rate, now: Nanos) -> bool {
        let added = now.since(self.at).0.saturating_mul(rate.per_second);
        self.level.saturating_add(added) >= rate.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_its_rate() {
        let rate = Rate::new(1000, 50);
        let mut bucket = Bucket::full(&rate, Nanos::ZERO);
        let taken =
            |bucket: &mut Bucket, now| (0..200).filter(|_| bucket.take(&rate, 1, now)).count();
        assert_eq!(taken(&mut bucket, Nanos::ZERO), 50);
        assert_eq!(taken(&mut bucket, Nanos::from_micros(999)), 0);
        assert_eq!(taken(&mut bucket, Nanos::from_millis(1)), 1);
        assert_eq!(taken(&mut bucket, Nanos::from_millis(11)), 10);
        assert!(!bucket.is_full(&rate, Nanos::from_millis(60)));
        assert!(bucket.is_full(&rate, Nanos::from_millis(61)));
        assert_eq!(taken(&mut bucket, Nanos::FAR_FUTURE), 50, "never more than the burst");
    }

    proptest! {
        #[test]
        fn what_is_taken_never_exceeds_burst_and_rate(
            per_second in (0..13u32, 1..10u64).prop_map(|(zeros, digit)| digit * 10u64.pow(zeros)),
            burst in 1..100_000u64,
            steps in prop::collection::vec((0..5_000_000u64, 1..3000u64), 1..200),
        ) {
            let rate = Rate::new(per_second, burst);
            let mut bucket = Bucket::full(&rate, Nanos::ZERO);
            let (mut now, mut taken) = (0, 0u128);
            for (pause, units) in steps {
                now += pause;
                if bucket.take(&rate, units, Nanos(now)) {
                    taken += u128::from(units);
                }
                // A clock that steps back changes nothing.
                prop_assert!(!bucket.take(&rate, u64::MAX, Nanos(now / 2)));
            }
            let allowed = u128::from(burst) * 1_000_000_000 + u128::from(now) * u128::from(per_second);
            prop_assert!(taken * 1_000_000_000 <= allowed);
        }
    }
}
