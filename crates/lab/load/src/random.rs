//! Random numbers that a seed repeats on every machine: xoshiro256++ (Blackman and Vigna, 2019).
//!
//! Our own, because a schedule is promised to be the same for the same seed, and general crates
//! keep the right to change their algorithm.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of `seed`; equal seeds give equal streams, near seeds unrelated ones.
    pub fn new(seed: u64) -> Self {
        // SplitMix64 spreads the seed, as the authors of xoshiro recommend; it never gives four
        // zeros in a row, the one state that the generator cannot leave.
        let mut state = seed;
        let state = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        });
        Self { state }
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Evenly over `0..bound`; zero for an empty range.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        // The high half of a product (Lemire 2019) without the rejection step: its bias, at most
        // bound / 2^64, cannot be seen.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u32
    }

    /// Evenly over (0, 1]: never zero, so that its logarithm is finite.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Exponentially distributed with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Normally distributed with mean 0 and variance 1.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        // Box and Muller (1958), one of the pair: no state is kept between calls.
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_repeat_and_near_seeds_do_not() {
        let stream = |seed| {
            let mut random = Random::new(seed);
            std::array::from_fn::<u64, 8, _>(|_| random.bits())
        };
        assert_eq!(stream(7), stream(7));
        assert!(stream(7).iter().zip(stream(8)).all(|(a, b)| *a != b));
    }

    #[test]
    fn the_stream_of_a_known_state_is_that_of_the_published_generator() {
        // The first outputs of the reference implementation for the state {1, 2, 3, 4}.
        let mut random = Random { state: [1, 2, 3, 4] };
        assert_eq!(
            [random.bits(), random.bits(), random.bits()],
            [41_943_041, 58_720_359, 3_588_806_011_781_223]
        );
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Random::new(3);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        // 10,000 expected in each, standard deviation 95.
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn exponential_numbers_have_mean_and_variance_one() {
        let mut random = Random::new(5);
        let samples: Vec<f64> = (0..100_000).map(|_| random.exponential()).collect();
        let mean = samples.iter().sum::<f64>() / 1e5;
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn normal_numbers_lie_within_one_and_two_deviations_as_often_as_they_should() {
        let mut random = Random::new(6);
        let samples: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let within = |bound: f64| samples.iter().filter(|x| x.abs() < bound).count() as f64 / 1e5;
        assert!((within(1.0) - 0.6827).abs() < 0.006, "{}", within(1.0));
        assert!((within(2.0) - 0.9545).abs() < 0.003, "{}", within(2.0));
        assert!((samples.iter().sum::<f64>() / 1e5).abs() < 0.015);
    }
}
