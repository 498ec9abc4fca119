//! How much work a request asks for: distributions of service time, in iterations.
//!
//! The five of Shenango's `synthetic`, with its parameters, so that figures can be compared, and
//! the lognormal one, which measured service times often resemble.

use std::fmt;

use serde::Serialize;

use crate::{Plan, REQUEST_BYTES, Random};

/// A distribution of iterations around a mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "lower")]
pub enum Distribution {
    /// No work, whatever the mean.
    Zero,
    /// Always the mean.
    #[default]
    Constant,
    /// Exponential.
    Exponential,
    /// 90% half the mean, 10% 5.5 times the mean.
    Bimodal1,
    /// 99.9% half the mean, 0.1% 500.5 times the mean.
    Bimodal2,
    /// Its logarithm is normal with standard deviation 1: the median is 0.61 of the mean.
    Lognormal,
}

/// Standard deviation of the logarithm of lognormal work.
const SIGMA: f64 = 1.0;

impl Distribution {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Zero,
        Self::Constant,
        Self::Exponential,
        Self::Bimodal1,
        Self::Bimodal2,
        Self::Lognormal,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Constant => "constant",
            Self::Exponential => "exponential",
            Self::Bimodal1 => "bimodal1",
            Self::Bimodal2 => "bimodal2",
            Self::Lognormal => "lognormal",
        }
    }

    /// One request's iterations.
    #[inline]
    pub fn sample(self, mean: u64, random: &mut Random) -> u64 {
        let mean = mean as f64;
        let iterations = match self {
            Self::Zero => 0.0,
            Self::Constant => mean,
            Self::Exponential => mean * random.exponential(),
            Self::Bimodal1 if random.unit() <= 0.9 => mean * 0.5,
            Self::Bimodal1 => mean * 5.5,
            Self::Bimodal2 if random.unit() <= 0.999 => mean * 0.5,
            Self::Bimodal2 => mean * 500.5,
            // The mean of exp(N(m, s^2)) is exp(m + s^2/2).
            Self::Lognormal => mean * (SIGMA * random.normal() - SIGMA * SIGMA / 2.0).exp(),
        };
        iterations.round() as u64
    }
}

/// What requests of a server that does fake work ask for.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Work {
    /// Mean of the fake work that requests ask the server for (`synthetic`), in iterations.
    #[arg(short, long, alias = "mean", default_value_t = 0)]
    pub iterations: u64,
    /// Distribution of that work.
    #[arg(short, long, value_enum, default_value_t)]
    pub distribution: Distribution,
    /// Bytes of a request: 16 and a pattern.
    #[arg(long, default_value_t = REQUEST_BYTES, value_name = "BYTES")]
    pub payload: usize,
}

impl Default for Work {
    /// None, in the smallest request.
    fn default() -> Self {
        Self { iterations: 0, distribution: Distribution::default(), payload: REQUEST_BYTES }
    }
}

impl Work {
    /// `plan` with this work.
    #[must_use]
    pub fn of(&self, plan: Plan) -> Plan {
        let Self { iterations, distribution, payload } = *self;
        Plan { iterations, distribution, payload_bytes: payload, ..plan }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_but_zero_has_the_mean_that_was_asked_for() {
        for distribution in Distribution::ALL {
            let mut random = Random::new(21);
            let count = 1_000_000_u32;
            let sum: u64 = (0..count).map(|_| distribution.sample(1000, &mut random)).sum();
            let mean = sum as f64 / f64::from(count);
            let expected = if distribution == Distribution::Zero { 0.0 } else { 1000.0 };
            // bimodal2 has a standard deviation of 15.8 means, so 1.6% of the mean here.
            assert!((mean - expected).abs() <= 80.0, "{distribution}: {mean}");
        }
    }

    #[test]
    fn shapes_are_those_of_their_names() {
        // Squared coefficient of variation, and the share of requests below the mean.
        for (distribution, variation, below) in [
            (Distribution::Constant, 0.0, 0.0),
            (Distribution::Exponential, 1.0, 0.632),
            (Distribution::Bimodal1, 2.25, 0.9),
            (Distribution::Lognormal, 1.718, 0.691),
        ] {
            let mut random = Random::new(23);
            let samples: Vec<f64> =
                (0..400_000).map(|_| distribution.sample(10_000, &mut random) as f64).collect();
            let squares: f64 = samples.iter().map(|x| (x / 10_000.0 - 1.0).powi(2)).sum();
            let found = squares / samples.len() as f64;
            assert!(
                (found - variation).abs() <= 0.1 * variation.max(0.1),
                "{distribution}: {found}"
            );
            let share = samples.iter().filter(|&&x| x < 10_000.0).count() as f64 / 400_000.0;
            assert!((share - below).abs() < 0.01, "{distribution}: {share}");
        }
    }

    #[test]
    fn bimodal_work_takes_one_of_two_values() {
        let mut random = Random::new(22);
        for (distribution, values) in
            [(Distribution::Bimodal1, [100, 1100]), (Distribution::Bimodal2, [100, 100_100])]
        {
            let samples: Vec<u64> =
                (0..20_000).map(|_| distribution.sample(200, &mut random)).collect();
            assert!(values.iter().all(|value| samples.contains(value)), "{distribution}");
            assert!(samples.iter().all(|sample| values.contains(sample)), "{distribution}");
        }
    }
}
