//! Which flows are heavy: one packet of every batch or so is looked at, in a bounded table.
//!
//! After the frequent algorithm (Misra and Gries): a sampled flow that finds its set full takes one
//! count from each of the set's flows, and a later one replaces a flow that has none left. So a
//! heavy flow stays and a flood of new flows only wears itself out.

use base::{FlowGroup, FlowHash};
use wire::FlowKey;

/// One packet in this many is sampled. Prime, so that it does not beat with batches.
const SAMPLE_EVERY: u32 = 61;

const SETS: usize = 256;
const WAYS: usize = 4;

/// The sampled flows.
#[derive(Debug)]
pub struct FlowSampler {
    sets: Vec<[Option<SampledFlow>; WAYS]>,
    until_sample: u32,
}

/// A flow that was sampled, with estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledFlow {
    /// Its 5-tuple.
    pub key: FlowKey,
    /// Its hash.
    pub hash: FlowHash,
    /// The group that steered its last sampled packet.
    pub group: FlowGroup,
    /// Samples, less those that other flows wore off.
    pub samples: u32,
    /// Packets: samples times the sampling interval.
    pub packets: u64,
    /// Bytes, estimated likewise.
    pub bytes: u64,
}

impl FlowSampler {
    /// Nothing sampled.
    pub fn new() -> Self {
        Self { sets: vec![[None; WAYS]; SETS], until_sample: SAMPLE_EVERY }
    }

    /// A packet has been classified; perhaps it is the one to look at.
    #[inline]
    pub fn note(&mut self, key: &FlowKey, hash: FlowHash, group: FlowGroup, bytes: usize) {
        self.until_sample -= 1;
        if self.until_sample == 0 {
            self.until_sample = SAMPLE_EVERY;
            self.sample(key, hash, group, bytes);
        }
    }

    fn sample(&mut self, key: &FlowKey, hash: FlowHash, group: FlowGroup, bytes: usize) {
        let set = &mut self.sets[hash.0 as usize % SETS];
        let bytes = bytes as u64 * u64::from(SAMPLE_EVERY);
        let fresh = SampledFlow {
            key: *key,
            hash,
            group,
            samples: 1,
            packets: u64::from(SAMPLE_EVERY),
            bytes,
        };
        let known = set.iter_mut().flatten().find(|flow| flow.key == *key);
        if let Some(flow) = known {
            flow.samples = flow.samples.saturating_add(1);
            flow.packets += u64::from(SAMPLE_EVERY);
            flow.bytes += bytes;
            flow.group = group;
            return;
        }
        let spent = |way: &Option<SampledFlow>| way.is_none_or(|flow| flow.samples == 0);
        match set.iter_mut().find(|way| spent(way)) {
            Some(way) => *way = Some(fresh),
            None => set.iter_mut().flatten().for_each(|flow| flow.samples -= 1),
        }
    }

    /// The sampled flows with the most packets first, at most `count`.
    pub fn heaviest(&self, count: usize) -> Vec<SampledFlow> {
        let mut flows: Vec<SampledFlow> = self.sets.iter().flatten().flatten().copied().collect();
        flows.sort_unstable_by_key(|flow| std::cmp::Reverse((flow.packets, flow.hash.0)));
        flows.truncate(count);
        flows
    }
}

impl Default for FlowSampler {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_flow_survives_a_flood_of_new_ones_and_comes_first() {
        let mut sampler = FlowSampler::new();
        let key = |number: u32| {
            let source = std::net::SocketAddr::from((number.to_be_bytes(), 9));
            let destination = std::net::SocketAddr::from(([10, 0, 0, 1], 7));
            FlowKey::new(wire::Protocol::Udp, source, destination).expect("one family")
        };
        for number in 0..200_000_u32 {
            // All in one set: the worst case. Every third packet is the elephant's.
            let flow = if number % 3 == 0 { 1 } else { number };
            sampler.note(&key(flow), FlowHash(flow * SETS as u32), FlowGroup(flow), 100);
        }
        let heaviest = sampler.heaviest(3);
        assert_eq!(heaviest[0].key, key(1));
        let estimate = heaviest[0].packets as f64 / (200_000.0 / 3.0);
        assert!((0.8..1.2).contains(&estimate), "{estimate}");
        assert_eq!(heaviest[0].bytes, heaviest[0].packets * 100);
    }
}
