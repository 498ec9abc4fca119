//! When requests are due: the gaps of an arrival process.

use std::fmt;

use base::Nanos;
use serde::Serialize;

use crate::Random;

/// A process of arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Independent requests: exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Constant,
}

impl Arrival {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Poisson, Self::Constant];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
        }
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The endless sequence of times at which something arrives, never decreasing.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    kind: Arrival,
    gap_nanos: f64,
    /// In fractions of a nanosecond, so that rounding does not add up: 2^53 ns are 104 days.
    at_nanos: f64,
    random: Random,
}

impl Arrivals {
    /// Arrivals of `rate` a second. Constant ones start at `phase` (0 to 1) of a gap, so that
    /// several threads together are constant too; the sum of Poisson processes is one anyway.
    pub(crate) fn new(kind: Arrival, rate: f64, phase: f64, random: Random) -> Self {
        let gap_nanos = 1e9 / rate;
        let at_nanos = match kind {
            Arrival::Poisson => 0.0,
            Arrival::Constant => (phase - 1.0) * gap_nanos,
        };
        Self { kind, gap_nanos, at_nanos, random }
    }

    /// The next arrival, counted from the start.
    #[inline]
    pub(crate) fn next(&mut self) -> Nanos {
        self.at_nanos += match self.kind {
            Arrival::Poisson => self.gap_nanos * self.random.exponential(),
            Arrival::Constant => self.gap_nanos,
        };
        Nanos(self.at_nanos as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_per_window(kind: Arrival, seed: u64) -> Vec<u32> {
        let mut arrivals = Arrivals::new(kind, 100_000.0, 0.0, Random::new(seed));
        // 1000 windows of 1 ms with 100 arrivals each on average.
        let mut counts = vec![0; 1000];
        loop {
            let window = (arrivals.next().0 / 1_000_000) as usize;
            match counts.get_mut(window) {
                Some(count) => *count += 1,
                None => return counts,
            }
        }
    }

    #[test]
    fn both_processes_keep_their_rate() {
        for kind in Arrival::ALL {
            let total: u32 = counts_per_window(kind, 11).iter().sum();
            // Poisson: 100,000 with standard deviation 316.
            assert!((98_500..101_500).contains(&total), "{kind}: {total}");
        }
    }

    #[test]
    fn counts_of_a_poisson_process_vary_as_much_as_their_mean() {
        let counts = counts_per_window(Arrival::Poisson, 12);
        let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        let squares: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2)).sum();
        let ratio = squares / counts.len() as f64 / mean;
        // The estimate's standard deviation over 1000 windows is 0.045.
        assert!((0.8..1.2).contains(&ratio), "index of dispersion {ratio}");
    }

    #[test]
    fn constant_arrivals_are_equally_far_apart_for_ever() {
        // 3 a second: the gap is no whole number of nanoseconds.
        let mut arrivals = Arrivals::new(Arrival::Constant, 3.0, 0.0, Random::new(1));
        for second in 0..1000 {
            let in_second: Vec<u64> = (0..3).map(|_| arrivals.next().0).collect();
            for (third, at) in in_second.iter().enumerate() {
                let exact = second * 1_000_000_000 + third as u64 * 1_000_000_000 / 3;
                assert!(at.abs_diff(exact) <= 1, "{at} {exact}");
            }
        }
    }
}
