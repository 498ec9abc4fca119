//! Which flow the next packet is of, and what is known of each flow.

use base::Nanos;
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

/// Nobody: no worker, no core, no application.
pub(super) const NOBODY: u16 = u16::MAX;

/// What is remembered of a flow. A packet touches it twice, at random: four fit in a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// The latest arrival of its packets that were done.
    pub(super) done: Nanos,
    /// Who did the last one; [`NOBODY`] before the first.
    pub(super) worker: u16,
    /// The core on which its state is.
    pub(super) core: u16,
    /// The step in which it has moved last.
    pub(super) moved_in: u16,
    /// Counts the flows that have had this place one after the other.
    pub(super) life: u8,
    /// An exact table of flows has it.
    pub(super) is_listed: bool,
}

const _: () = assert!(size_of::<Flow>() == 16, "four flows fit in a cache line");

impl Default for Flow {
    fn default() -> Self {
        Self {
            done: Nanos::ZERO,
            worker: NOBODY,
            core: NOBODY,
            moved_in: NOBODY,
            life: 0,
            is_listed: false,
        }
    }
}

impl Flow {
    /// It has ended, and another one begins in its place.
    pub(super) fn replace(&mut self) {
        *self = Self { life: self.life.wrapping_add(1), ..Self::default() };
    }
}

/// Draws flows, by inverting the sum of a power law: one look and no table of all flows.
#[derive(Clone, Debug)]
pub(super) struct FlowLottery {
    flows: u32,
    law: Law,
    random: Random,
}

/// The power law over the reals from 1/2 to n + 1/2, rounded, has Zipf's shares but for the first few ranks,
/// which it hits to some per cent. The inverse of its sum, with what does not change worked out.
#[derive(Clone, Copy, Debug)]
enum Law {
    Even,
    /// Of exponent one: `from * ratio^share`, by `exp2`.
    Harmonic {
        octaves: f64,
    },
    /// Of any other: `(from + share * span)^power`.
    Power {
        from: f64,
        span: f64,
        power: f64,
    },
}

impl FlowLottery {
    pub(super) fn new(flows: u32, popularity: Popularity, random: Random) -> Self {
        let (from, to) = (0.5_f64, f64::from(flows) + 0.5);
        let law = match popularity {
            Popularity::Uniform => Law::Even,
            Popularity::Zipf { exponent } if (exponent - 1.0).abs() < 1e-9 => {
                Law::Harmonic { octaves: (to / from).log2() }
            }
            Popularity::Zipf { exponent } => {
                let power = 1.0 - exponent;
                let first = from.powf(power);
                Law::Power { from: first, span: to.powf(power) - first, power: 1.0 / power }
            }
        };
        Self { flows, law, random }
    }

    /// The flow of the next packet.
    #[inline]
    pub(super) fn draw(&mut self) -> u32 {
        let rank = match self.law {
            Law::Even => return self.random.below(self.flows),
            Law::Harmonic { octaves } => 0.5 * (self.random.unit() * octaves).exp2(),
            Law::Power { from, span, power } => (from + self.random.unit() * span).powf(power),
        };
        (rank.round() as u32).clamp(1, self.flows) - 1
    }

    /// Any flow, whatever its share.
    pub(super) fn draw_evenly(&mut self) -> u32 {
        self.random.below(self.flows)
    }
}

/// The hash of a flow: any good spread will do, and this one is the same everywhere.
#[inline]
pub(super) fn flow_hash(flow: u32, life: u8, seed: u64) -> u32 {
    let name = u64::from(flow) | u64::from(life) << 32;
    let mut word = (name ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
        (0..12_800).for_each(|flow| counts[flow_hash(flow, 0, 7) as usize % 128] += 1);
        assert!(counts.iter().all(|count| (60..150).contains(count)), "{counts:?}");
        assert_ne!(flow_hash(1, 0, 7), flow_hash(1, 0, 8));
        assert_ne!(
            flow_hash(1, 0, 7),
            flow_hash(1, 1, 7),
            "a new flow in the same place is another"
        );
    }
}
