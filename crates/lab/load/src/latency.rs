//! Latencies as histograms (HDR, three digits), and the percentiles that people read.

use std::fmt;

use base::Nanos;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Beyond a minute a latency is no latency any more; longer ones count as this.
const LONGEST_NANOS: u64 = 60_000_000_000;

/// A set of latencies.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let mut histogram = Histogram::new_with_bounds(1, LONGEST_NANOS, 3)
            .expect("the bounds and the digits are constants that the library accepts");
        // Its counters are written once, unseen by the compiler, which knows that they are zero:
        // else their memory is only there at the first latency, which waits for it.
        std::hint::black_box(&mut histogram).reset();
        Self { histogram }
    }
}

impl Latencies {
    /// Adds one.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.histogram.saturating_record(latency.0.max(1));
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency below which this share of them lies; zero when there are none.
    pub fn quantile(&self, share: f64) -> Nanos {
        Nanos(self.histogram.value_at_quantile(share))
    }

    /// The same when `missing` more never ended: `None` where that is one of them.
    pub fn quantile_with_missing(&self, share: f64, missing: u64) -> Option<Nanos> {
        let total = self.count() + missing;
        let rank = ((share * total as f64).ceil() as u64).clamp(1, total.max(1));
        (rank <= self.count()).then(|| self.quantile(rank as f64 / self.count() as f64))
    }

    /// The percentiles that people read.
    pub fn percentiles(&self) -> Percentiles {
        let mean_us = if self.count() == 0 { 0.0 } else { self.histogram.mean() / 1e3 };
        Percentiles::of(mean_us, |share| self.quantile(share).as_micros_f64())
    }

    /// The same when `missing` more never ended: infinite wherever one of them counts, and
    /// everywhere when nothing ended. Else a server that drops what it is slow with would look
    /// fast.
    pub fn percentiles_with_missing(&self, missing: u64) -> Percentiles {
        let is_whole = missing == 0 && self.count() > 0;
        let mean_us = if is_whole { self.histogram.mean() / 1e3 } else { f64::INFINITY };
        Percentiles::of(mean_us, |share| {
            let latency = self.quantile_with_missing(share, missing);
            latency.map_or(f64::INFINITY, Nanos::as_micros_f64)
        })
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

impl Percentiles {
    /// `at` gives the latency in microseconds below which a share lies.
    fn of(mean_us: f64, at: impl Fn(f64) -> f64) -> Self {
        Self {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: at(1.0),
            mean_us,
        }
    }
}

/// Not the thousands of counters behind them.
impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latencies({})", self.count())
    }
}

/// Latencies in microseconds; infinite (in JSON null) where one counts that never ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half are below this.
    pub p50_us: f64,
    /// 90% are below this.
    pub p90_us: f64,
    /// 95% are below this.
    pub p95_us: f64,
    /// 99% are below this.
    pub p99_us: f64,
    /// 99.9% are below this.
    pub p99_9_us: f64,
    /// 99.99% are below this.
    pub p99_99_us: f64,
    /// All are below this.
    pub max_us: f64,
    /// The arithmetic mean.
    pub mean_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let mut latencies = Latencies::default();
        for micros in 1..=1000 {
            latencies.record(Nanos::from_micros(micros));
        }
        let percentiles = latencies.percentiles();
        for (found, expected) in [
            (percentiles.p50_us, 500.0),
            (percentiles.p95_us, 950.0),
            (percentiles.p99_us, 990.0),
            (percentiles.max_us, 1000.0),
            (percentiles.mean_us, 500.5),
        ] {
            assert!((found / expected - 1.0).abs() < 0.002, "{found} {expected}");
        }
    }

    #[test]
    fn a_percentile_that_falls_on_a_request_without_reply_does_not_exist() {
        let mut latencies = Latencies::default();
        (0..90).for_each(|_| latencies.record(Nanos::from_micros(7)));
        assert!(latencies.quantile_with_missing(0.9, 10).is_some());
        assert_eq!(latencies.quantile_with_missing(0.91, 10), None);
        assert_eq!(Latencies::default().quantile_with_missing(0.5, 0), None);
        let some = latencies.percentiles_with_missing(10);
        assert_eq!((some.p90_us, some.p95_us), (latencies.percentiles().p90_us, f64::INFINITY));
        assert!(some.max_us.is_infinite() && some.mean_us.is_infinite(), "{some:?}");
        assert_eq!(latencies.percentiles_with_missing(0), latencies.percentiles());
        assert!(Latencies::default().percentiles_with_missing(0).p50_us.is_infinite());
    }

    #[test]
    fn nothing_recorded_gives_zeros_and_extremes_are_kept_in_range() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentiles(), Percentiles::default());
        latencies.record(Nanos::ZERO);
        latencies.record(Nanos::FAR_FUTURE);
        assert_eq!(latencies.count(), 2);
    }
}
