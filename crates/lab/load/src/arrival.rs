//! When requests are due: the gaps of an arrival process.

use std::fmt;

use base::Nanos;
use serde::Serialize;

use crate::Random;
use crate::profile::{Inverse, Profile};

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

/// The sequence of times at which something arrives, never decreasing; without end where the rate
/// is level.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    kind: Arrival,
    gap: f64,
    /// In fractions of a nanosecond, so that rounding does not add up: 2^53 ns are 104 days. With a
    /// profile, in requests.
    at: f64,
    profile: Option<Inverse>,
    random: Random,
}

impl Arrivals {
    /// Arrivals of `rate` a second, or of `profile` where that is not level. Constant ones start at
    /// `phase` (0 to 1) of a gap, so that several threads together are constant too; the sum of
    /// Poisson processes is one anyway.
    pub(crate) fn new(
        kind: Arrival,
        rate: f64,
        profile: &Profile,
        phase: f64,
        random: Random,
    ) -> Self {
        let profile = (!profile.is_level()).then(|| Inverse::new(profile));
        let gap = if profile.is_some() { 1.0 } else { 1e9 / rate };
        let at = match kind {
            Arrival::Poisson => 0.0,
            Arrival::Constant => (phase - 1.0) * gap,
        };
        Self { kind, gap, at, profile, random }
    }

    /// The next arrival, counted from the start; none: the profile is over.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Nanos> {
        self.at += match self.kind {
            Arrival::Poisson => self.gap * self.random.exponential(),
            Arrival::Constant => self.gap,
        };
        match &mut self.profile {
            None => Some(Nanos(self.at as u64)),
            Some(profile) => profile.nanos_of(self.at).map(|nanos| Nanos(nanos as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(kind: Arrival, rate: f64, seed: u64) -> Arrivals {
        Arrivals::new(kind, rate, &Profile::LEVEL, 0.0, Random::new(seed))
    }

    fn arrivals_in_nanos(arrivals: &mut Arrivals) -> impl Iterator<Item = u64> + '_ {
        std::iter::from_fn(|| arrivals.next().map(|at| at.0))
    }

    #[test]
    fn a_poisson_ramp_has_at_every_moment_the_rate_of_the_ramp() {
        let second = Nanos::from_secs(1);
        let ramp = crate::profile::Piece { length: second, from: 0.0, to: 200_000.0 };
        let profile = Profile::new(vec![ramp]).expect("it is possible");
        let mut arrivals = Arrivals::new(Arrival::Poisson, 1.0, &profile, 0.0, Random::new(13));
        let mut tenths = [0_i32; 10];
        arrivals_in_nanos(&mut arrivals).for_each(|at| tenths[(at / 100_000_000) as usize] += 1);
        for (tenth, count) in (0..).zip(tenths) {
            // 1000, 3000, ... with standard deviations of their roots.
            let expected = 1000 + 2000 * tenth;
            let allowed = 5.0 * f64::from(expected).sqrt();
            assert!(f64::from((count - expected).abs()) < allowed, "{tenth}: {count}");
        }
    }

    fn counts_per_window(kind: Arrival, seed: u64) -> Vec<u32> {
        let mut arrivals = level(kind, 100_000.0, seed);
        // 1000 windows of 1 ms with 100 arrivals each on average.
        let mut counts = vec![0; 1000];
        loop {
            let window = (arrivals.next().expect("without end").0 / 1_000_000) as usize;
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
        let mut arrivals = level(Arrival::Constant, 3.0, 1);
        for second in 0..1000 {
            let in_second: Vec<u64> = arrivals_in_nanos(&mut arrivals).take(3).collect();
            for (third, at) in in_second.iter().enumerate() {
                let exact = second * 1_000_000_000 + third as u64 * 1_000_000_000 / 3;
                assert!(at.abs_diff(exact) <= 1, "{at} {exact}");
            }
        }
    }
}
