//! A token bucket: so much a second, and so much at once after a pause.
//!
//! Threads may share one: what all of them take together stays within its rate.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// A bucket; its [`Rate`] is kept apart, because many share one. A new one is empty.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// What is in it: units times 10^9, so that a nanosecond adds the rate and nothing is rounded.
    level: AtomicU64,
    /// Up to when the rate has been added: nanoseconds. Whoever moves it on adds what came in
    /// between, so that no moment is counted twice.
    at: AtomicU64,
}

const NANO: u64 = 1_000_000_000;

impl Bucket {
    /// A full one.
    pub(crate) const fn full(rate: &Rate, now: Nanos) -> Self {
        Self { level: AtomicU64::new(rate.full), at: AtomicU64::new(now.0) }
    }

    /// Makes it a full one, of maybe another rate.
    pub(crate) fn fill(&self, rate: &Rate, now: Nanos) {
        self.at.store(now.0, Relaxed);
        self.level.store(rate.full, Relaxed);
    }

    /// Takes `units` out; false, and nothing taken, when there are not as many. A clock that steps
    /// back adds nothing.
    #[inline]
    pub(crate) fn take(&self, rate: &Rate, units: u64, now: Nanos) -> bool {
        let at = self.at.load(Relaxed);
        if now.0 > at && self.at.compare_exchange(at, now.0, Relaxed, Relaxed).is_ok() {
            let added = (now.0 - at).saturating_mul(rate.per_second);
            let add = |level: u64| Some(level.saturating_add(added).min(rate.full));
            // It always adds.
            let _ = self.level.fetch_update(Relaxed, Relaxed, add);
        }
        let units = units.saturating_mul(NANO);
        self.level.fetch_update(Relaxed, Relaxed, |level| level.checked_sub(units)).is_ok()
    }

    /// Whether it is full again: a new one would be no different.
    #[inline]
    pub(crate) fn is_full(&self, rate: &Rate, now: Nanos) -> bool {
        let elapsed = now.0.saturating_sub(self.at.load(Relaxed));
        let added = elapsed.saturating_mul(rate.per_second);
        self.level.load(Relaxed).saturating_add(added) >= rate.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_its_rate() {
        let rate = Rate::new(1000, 50);
        let bucket = Bucket::full(&rate, Nanos::ZERO);
        let taken = |bucket: &Bucket, now| (0..200).filter(|_| bucket.take(&rate, 1, now)).count();
        assert_eq!(taken(&bucket, Nanos::ZERO), 50);
        assert_eq!(taken(&bucket, Nanos::from_micros(999)), 0);
        assert_eq!(taken(&bucket, Nanos::from_millis(1)), 1);
        assert_eq!(taken(&bucket, Nanos::from_millis(11)), 10);
        assert!(!bucket.is_full(&rate, Nanos::from_millis(60)));
        assert!(bucket.is_full(&rate, Nanos::from_millis(61)));
        assert_eq!(taken(&bucket, Nanos::FAR_FUTURE), 50, "never more than the burst");
    }

    proptest! {
        #[test]
        fn what_is_taken_never_exceeds_burst_and_rate(
            per_second in (0..13u32, 1..10u64).prop_map(|(zeros, digit)| digit * 10u64.pow(zeros)),
            burst in 1..100_000u64,
            steps in prop::collection::vec((0..5_000_000u64, 1..3000u64), 1..200),
        ) {
            let rate = Rate::new(per_second, burst);
            let bucket = Bucket::full(&rate, Nanos::ZERO);
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
