//! What an application may send: a bucket of bytes that fills with time, shared by all workers.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

/// A token bucket without a lock: it keeps only when it would be full.
#[derive(Debug)]
pub struct Rate {
    bytes_per_s: u64,
    burst_bytes: u64,
    /// The time at which all that was taken will have come in again.
    paid_until: AtomicU64,
}

impl Rate {
    /// `bytes_per_s` in the long run and `burst_bytes` at once.
    pub fn new(bytes_per_s: u64, burst_bytes: u64) -> Self {
        Self {
            bytes_per_s: bytes_per_s.max(1),
            burst_bytes: burst_bytes.max(1),
            paid_until: AtomicU64::new(0),
        }
    }

    fn time_of(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s)) as u64
    }

    /// Takes `bytes` or nothing. Nothing: when to try again. More than a burst is taken from a full
    /// bucket.
    pub fn take_whole(&self, bytes: u64, now: Nanos) -> Result<(), Nanos> {
        let burst = self.time_of(self.burst_bytes);
        let cost = self.time_of(bytes);
        let mut paid = self.paid_until.load(Ordering::Relaxed);
        loop {
            let next = paid.max(now.0) + cost;
            let due = next.saturating_sub(burst.max(cost));
            if due > now.0 {
                return Err(Nanos(due.max(now.0 + 1000)));
            }
            match self.paid_until.compare_exchange_weak(
                paid,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(other) => paid = other,
            }
        }
    }

    /// Takes up to `wanted` bytes; how many, and when more will be there if it was less.
    pub fn take(&self, wanted: u64, now: Nanos) -> (u64, Nanos) {
        let burst = self.time_of(self.burst_bytes);
        let mut paid = self.paid_until.load(Ordering::Relaxed);
        loop {
            let from = paid.max(now.0);
            let free_time = (now.0 + burst).saturating_sub(from);
            let free = u128::from(free_time) * u128::from(self.bytes_per_s) / 1_000_000_000;
            let taken = wanted.min(free as u64);
            let next = from + self.time_of(taken);
            // What is short is there when the bucket has run so far; a segment's worth at least.
            let missing = self.time_of((wanted - taken).min(self.burst_bytes).min(1500));
            let again = Nanos((next + missing).saturating_sub(burst).max(now.0 + 1000));
            if taken == 0 {
                return (0, again);
            }
            match self.paid_until.compare_exchange_weak(
                paid,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return (taken, again),
                Err(other) => paid = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_whole_is_taken_or_costs_nothing() {
        let rate = Rate::new(1_000_000, 10_000);
        let now = Nanos::from_secs(5);
        assert_eq!(rate.take_whole(8000, now), Ok(()));
        // 5,000 bytes are there when 3,000 have come in.
        for _ in 0..100 {
            assert_eq!(rate.take_whole(5000, now), Err(now + Nanos::from_millis(3)));
        }
        assert_eq!(rate.take_whole(2000, now), Ok(()), "the tries took nothing");
        let later = now + Nanos::from_secs(1);
        assert_eq!(rate.take_whole(50_000, later), Ok(()), "the bucket is full");
        assert!(rate.take_whole(1, later).is_err(), "and pays for it");
    }

    #[test]
    fn a_burst_leaves_at_once_and_then_the_rate_holds() {
        let rate = Rate::new(1_000_000, 10_000);
        let mut now = Nanos::from_secs(5);
        assert_eq!(rate.take(4000, now).0, 4000);
        let (taken, mut again) = rate.take(100_000, now);
        assert_eq!(taken, 6000);
        let began = now;
        let mut sent = 0;
        while sent < 1_000_000 {
            assert!(again > now, "time moves on");
            now = again;
            let (taken, next) = rate.take(1_000_000 - sent, now);
            (sent, again) = (sent + taken, next);
        }
        let took = now.since(began).0;
        assert!((990_000_000..=1_001_000_000).contains(&took), "{took} ns for a second's worth");
    }
}
