//! Which flow the next packet is of, and what is known of each flow.

use load::Random;

/// How packets spread over flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Popularity {
    /// Any flow at any time, evenly.
    #[default]
    Uniform,
    /// The k-th flow has a share proportional to `1 / k^exponent` (Zipf).
    Zipf {
        /// 0: even; 1: as words in a text; beyond 1 a few flows have nearly everything.
        exponent: f64,
    },
}

/// Draws flows, by inverting the sum of a power law: one look and no table of all flows.
#[derive(Clone, Debug)]
pub(super) struct FlowLottery {
    flows: u32,
    popularity: Popularity,
    random: Random,
}

impl FlowLottery {
    pub(super) fn new(flows: u32, popularity: Popularity, random: Random) -> Self {
        Self { flows, popularity, random }
    }

    #[inline]
    pub(super) fn draw(&mut self) -> u32 {
        let Popularity::Zipf { exponent } = self.popularity else {
            return self.random.below(self.flows);
        };
        // The power law over the reals from 1/2 to n + 1/2, rounded, has Zipf's shares but for the first
        // few ranks, which it hits to some per cent.
        let (from, to) = (0.5_f64, f64::from(self.flows) + 0.5);
        let share = self.random.unit();
        let at = if (exponent - 1.0).abs() < 1e-9 {
            from * (to / from).powf(share)
        } else {
            let power = 1.0 - exponent;
            (from.powf(power) + share * (to.powf(power) - from.powf(power))).powf(1.0 / power)
        };
        (at.round() as u32).clamp(1, self.flows) - 1
    }
}

/// The hash of a flow: any good spread will do, and this one is the same everywhere.
#[inline]
pub(super) fn flow_hash(flow: u32, seed: u64) -> u32 {
    let mut word = (u64::from(flow) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(popularity: Popularity) -> Vec<f64> {
        let mut lottery = FlowLottery::new(1000, popularity, Random::new(4));
        let mut counts = vec![0.0; 1000];
        (0..400_000).for_each(|_| counts[lottery.draw() as usize] += 1.0 / 400_000.0);
        counts
    }

    #[test]
    fn even_flows_have_even_shares() {
        assert!(shares(Popularity::Uniform).iter().all(|share| (0.0007..0.0013).contains(share)));
    }

    #[test]
    fn zipf_gives_the_second_flow_half_of_the_first_and_the_tenth_a_tenth() {
        for exponent in [0.9, 1.0, 1.2] {
            let shares = shares(Popularity::Zipf { exponent });
            let ratio =
                |rank: i32| shares[rank as usize - 1] / shares[0] * f64::from(rank).powf(exponent);
            for rank in [2, 5, 10, 50] {
                assert!((0.75..1.35).contains(&ratio(rank)), "{exponent} {rank} {}", ratio(rank));
            }
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn hashes_spread_over_every_power_of_two() {
        let mut counts = [0_u32; 128];
        (0..12_800).for_each(|flow| counts[flow_hash(flow, 7) as usize % 128] += 1);
        assert!(counts.iter().all(|count| (60..150).contains(count)), "{counts:?}");
        assert_ne!(flow_hash(1, 7), flow_hash(1, 8));
    }
}
