//! Which flow the next packet is of, and what is known of each flow.

use base::Nanos;
use load::{Random, Zipf};

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

/// Draws flows by the laws of the load generator.
#[derive(Clone, Debug)]
pub(super) struct FlowLottery {
    flows: u32,
    law: Law,
    random: Random,
}

#[derive(Clone, Copy, Debug)]
enum Law {
    Even,
    Zipf(Zipf),
}

impl FlowLottery {
    pub(super) fn new(flows: u32, popularity: Popularity, random: Random) -> Self {
        let law = match popularity {
            Popularity::Uniform => Law::Even,
            Popularity::Zipf { exponent } => Law::Zipf(Zipf::new(flows, exponent)),
        };
        Self { flows, law, random }
    }

    /// The flow of the next packet.
    #[inline]
    pub(super) fn draw(&mut self) -> u32 {
        match self.law {
            Law::Even => self.random.below(self.flows),
            Law::Zipf(zipf) => zipf.draw(&mut self.random),
        }
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
    fn the_first_flows_have_zipfs_shares() {
        for exponent in [0.9, 1.0, 1.2] {
            let shares = shares(Popularity::Zipf { exponent });
            let sum: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1, 2, 3, 5, 10] {
                let expected = f64::from(rank).powf(-exponent) / sum;
                // Four standard deviations of a count of 400,000 draws.
                let bound = 4.0 * (expected * (1.0 - expected) / 400_000.0).sqrt();
                let found = shares[rank as usize - 1];
                assert!((found - expected).abs() < bound, "{exponent} {rank}: {found} {expected}");
            }
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
