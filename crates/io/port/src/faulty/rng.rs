//! Chance from a seed: SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.

/// A stream of numbers that depends on nothing but its seed and its stream number.
#[derive(Clone, Debug)]
pub(super) struct Rng {
    state: u64,
}

/// 2^64 divided by the golden ratio: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The `stream`-th stream of `seed`. Each effect has its own, so that switching one on does
    /// not change what the others do.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self { state: seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93) };
        rng.next();
        rng
    }

    /// The next 64 bits.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// True with probability `probability`.
    #[inline]
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        // 53 bits are what an f64 from 0 to 1 can tell apart.
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A number below `bound`, or zero when that is zero.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // Lemire's multiplication; its bias of bound / 2^64 shows in no test of a network.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(take(1, 1), take(1, 1));
        assert_ne!(take(1, 1), take(1, 2));
        assert_ne!(take(1, 1), take(2, 1));
    }

    #[test]
    fn chances_come_true_as_often_as_they_should() {
        let mut rng = Rng::new(7, 0);
        assert!((0..1000).all(|_| !rng.chance(0.0)));
        assert!((0..1000).all(|_| rng.chance(1.0)));
        let hits = (0..100_000).filter(|_| rng.chance(0.1)).count();
        assert!((9_600..10_400).contains(&hits), "{hits}: four standard deviations are 380");
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut rng = Rng::new(3, 0);
        let mut seen = [false; 5];
        (0..200).for_each(|_| seen[rng.below(5) as usize] = true);
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.below(0), 0);
    }
}
