//! How much work a request asks for: distributions of service time, in iterations.
//!
//! The five of Shenango's `synthetic`, with its parameters, so that figures can be compared.

use std::fmt;

use serde::Serialize;

use crate::Random;

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
}

impl Distribution {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Zero, Self::Constant, Self::Exponential, Self::Bimodal1, Self::Bimodal2];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Constant => "constant",
            Self::Exponential => "exponential",
            Self::Bimodal1 => "bimodal1",
            Self::Bimodal2 => "bimodal2",
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
        };
        iterations.round() as u64
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
