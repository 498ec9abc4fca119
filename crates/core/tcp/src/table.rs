//! From a flow's name to its place: open addressing, eight bytes a slot, one cache line a look-up.
//!
//! The hash is keyed, so that nobody outside can choose names that all fall on one slot.

use base::FlowHash;
use wire::{FlowKey, Toeplitz};

/// Finds flows. It holds no names: whoever asks compares the candidates' own.
pub(crate) struct Table {
    hasher: Toeplitz,
    /// Hash in the high half, index plus one in the low half; zero: empty.
    slots: Vec<u64>,
}

impl Table {
    /// A table for at most `limit` flows; it is never more than half full.
    pub(crate) fn new(limit: u32, key: [u8; 40]) -> Self {
        let slots = (2 * limit.max(8) as usize).next_power_of_two();
        Self { hasher: Toeplitz::new(key), slots: vec![0; slots] }
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// The hash of a name.
    #[inline]
    pub(crate) fn hash(&self, key: &FlowKey) -> FlowHash {
        self.hasher.hash(key)
    }

    /// The slot and the index of the flow whose name `is_it` knows.
    #[inline]
    fn position(&self, hash: FlowHash, is_it: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let FlowHash(hash) = hash;
        let mut at = self.home(hash);
        // Half of the slots are empty, so that this ends.
        while self.slots[at] != 0 {
            let slot = self.slots[at];
            let index = (slot as u32).wrapping_sub(1);
            if (slot >> 32) as u32 == hash && is_it(index) {
                return Some((at, index));
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// The index that was entered under `hash`; `is_it` compares the name of a candidate.
    #[inline]
    pub(crate) fn find(&self, hash: FlowHash, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(hash, is_it).map(|(_, index)| index)
    }

    /// What is in the first slot for `hash`, if that is its own: most often the flow.
    #[inline]
    pub(crate) fn glance(&self, hash: FlowHash) -> Option<u32> {
        let FlowHash(hash) = hash;
        let slot = self.slots[self.home(hash)];
        ((slot >> 32) as u32 == hash).then_some((slot as u32).wrapping_sub(1))
    }

    /// Enters a flow that is not there yet.
    pub(crate) fn insert(&mut self, hash: FlowHash, index: u32) {
        let FlowHash(hash) = hash;
        let mut at = self.home(hash);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (u64::from(hash) << 32) | u64::from(index + 1);
    }

    /// Calls `visit` with the index of every flow whose hash ends like `group`; `groups` is a power
    /// of two. It looks only where such flows can be, however many others there are.
    pub(crate) fn each_of_group(&self, group: u32, groups: u32, mut visit: impl FnMut(u32)) {
        let mask = self.slots.len() - 1;
        let stride = (groups as usize).min(self.slots.len());
        for home in (group as usize & (stride - 1)..self.slots.len()).step_by(stride) {
            let mut at = home;
            while self.slots[at] != 0 {
                let slot = self.slots[at];
                let hash = (slot >> 32) as u32;
                if self.home(hash) == home && hash & (groups - 1) == group {
                    visit((slot as u32).wrapping_sub(1));
                }
                at = (at + 1) & mask;
            }
        }
    }

    /// Takes a flow out, and moves those behind it up, so that no search stops too early.
    pub(crate) fn remove(&mut self, hash: FlowHash, is_it: impl Fn(u32) -> bool) {
        let Some((mut hole, _)) = self.position(hash, is_it) else { return };
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = self.home((slot >> 32) as u32);
            // It may move up unless that would put it before its home.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = 0;
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use wire::Protocol;

    use super::*;

    fn key(port: u16) -> FlowKey {
        let source = ([10, 0, 0, 1], port).into();
        FlowKey::new(Protocol::Tcp, source, ([10, 0, 0, 2], 80).into()).unwrap()
    }

    proptest! {
        #[test]
        fn it_finds_what_a_map_finds(
            secret: [u8; 16],
            steps in prop::collection::vec((0_u16..40, any::<bool>()), 1..400),
        ) {
            let mut bytes = [0; 40];
            bytes[..16].copy_from_slice(&secret);
            // Sixteen flows at most in 32 slots: collisions are the rule.
            let mut table = Table::new(16, bytes);
            let mut oracle = BTreeMap::new();
            for (port, is_insert) in steps {
                let is_it = |index| index == u32::from(port);
                if is_insert && oracle.len() < 16 && !oracle.contains_key(&port) {
                    table.insert(table.hash(&key(port)), port.into());
                    oracle.insert(port, ());
                } else if !is_insert {
                    table.remove(table.hash(&key(port)), is_it);
                    oracle.remove(&port);
                }
                for groups in [1, 4, 64] {
                    let mut found = Vec::new();
                    for group in 0..groups {
                        table.each_of_group(group, groups, |port| {
                            let FlowHash(hash) = table.hash(&key(port as u16));
                            assert_eq!(hash & (groups - 1), group);
                            found.push(port as u16);
                        });
                    }
                    found.sort_unstable();
                    prop_assert!(found.iter().eq(oracle.keys()), "each is in one group");
                }
                for port in 0..40 {
                    let expected = oracle.contains_key(&port).then_some(u32::from(port));
                    prop_assert_eq!(table.find(table.hash(&key(port)), |at| at == u32::from(port)), expected);
                }
            }
        }
    }
}
