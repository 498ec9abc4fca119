//! Latencies in buckets that widen with them: small enough for one an application and step.

use std::fmt;

use base::Nanos;
use load::Percentiles;

/// A bucket is no wider than a 128th of what is in it.
const FINE_BITS: u32 = 7;
/// Below this every value has its own bucket.
const EXACT: u64 = 2 << FINE_BITS;

/// A set of latencies. Their number, sum and greatest are exact; any other is known to a 256th of
/// itself.
///
/// It has memory for what was recorded: some 8 KB where latencies are below a millisecond, a
/// twentieth of [`load::Latencies`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u32>,
    count: u64,
    sum: u64,
    max: Nanos,
}

impl Histogram {
    /// Adds one.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        let bucket = bucket_of(latency.0);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(latency.0);
        self.max = self.max.max(latency);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        let buckets = self.counts.len().max(other.counts.len());
        self.counts.resize(buckets, 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The arithmetic mean, in nanoseconds; zero when there are none.
    pub fn mean_ns(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The latency that this share of them is not above; zero when there are none.
    pub fn quantile(&self, share: f64) -> Nanos {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += u64::from(*count);
            if below >= rank {
                return Nanos(middle_of(bucket)).min(self.max);
            }
        }
        self.max
    }

    /// The percentiles that people read.
    pub fn percentiles(&self) -> Percentiles {
        let at = |share| self.quantile(share).as_micros_f64();
        Percentiles {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: self.max.as_micros_f64(),
            mean_us: self.mean_ns() / 1e3,
        }
    }
}

/// Not the hundreds of counters behind it.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, max, .. } = self;
        write!(f, "{count} of {} to {max}, p99 {}", self.quantile(0.0), self.quantile(0.99))
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    // How far to shift for the leading bits to be those of a bucket in its octave.
    let shift = (u64::BITS - FINE_BITS - 1).saturating_sub(value.leading_zeros());
    ((u64::from(shift) << FINE_BITS) + (value >> shift)) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let shift = (bucket >> FINE_BITS) - 1;
    ((bucket - (shift << FINE_BITS)) << shift) + (1 << (shift - 1))
}

#[cfg(test)]
mod tests {
    use load::Random;

    use super::*;

    #[test]
    fn every_value_is_found_again_to_a_256th() {
        let mut random = Random::new(1);
        for shift in 0..60 {
            let value = random.bits() >> shift;
            let found = middle_of(bucket_of(value));
            assert!(found.abs_diff(value) <= value >> 8, "{value} {found}");
        }
        (0..EXACT).for_each(|value| assert_eq!(middle_of(bucket_of(value)), value));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut random = Random::new(2);
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        let mut values: Vec<u64> =
            (0..10_001).map(|_| (random.exponential() * 1e4) as u64).collect();
        for (at, value) in values.iter().enumerate() {
            if at % 3 == 0 { &mut one } else { &mut other }.record(Nanos(*value));
        }
        one.add(&other);
        values.sort_unstable();
        for share in [0.001, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[((share * 10_001.0_f64).ceil() as usize) - 1];
            let found = one.quantile(share).0;
            assert!(found.abs_diff(exact) <= exact >> 7, "{share}: {found} {exact}");
        }
        assert_eq!((one.count(), one.quantile(1.0).0), (10_001, values[10_000]));
        let mean = values.iter().sum::<u64>() as f64 / 10_001.0;
        assert!((one.mean_ns() - mean).abs() < 1e-6 * mean);
    }

    #[test]
    fn nothing_recorded_gives_zeros() {
        let empty = Histogram::default();
        assert_eq!(
            (empty.quantile(0.99), empty.percentiles()),
            (Nanos::ZERO, Percentiles::default())
        );
    }
}
