//! How many unanswered connections each source has.
//!
//! A source is an IPv4 address or an IPv6 /64. Sources that meet in one place share it: with so
//! many places, and a seed, nobody meets another by choice.

use super::tuple::{Tuple, hash_of};

const PLACES: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Sources {
    counts: Box<[u32]>,
    most: u32,
    seed: u64,
}

impl Sources {
    pub(super) fn new(most: u32, seed: u64) -> Self {
        Self { counts: vec![0; PLACES].into(), most, seed: seed.rotate_left(17) }
    }

    /// The place of whoever sent the packet.
    #[inline]
    pub(super) fn slot(&self, tuple: &Tuple) -> u16 {
        let (high, low) = ((tuple.source >> 64) as u64, tuple.source as u64);
        // Of IPv4 all of the upper half is zero, and the address is in the lower one.
        let of_four = if high == 0 { low } else { 0 };
        hash_of(self.seed, &[high, of_four]) as u16
    }

    #[inline]
    pub(super) fn has_room(&self, slot: u16) -> bool {
        self.counts[usize::from(slot)] < self.most
    }

    #[inline]
    pub(super) fn add(&mut self, slot: u16) {
        self.counts[usize::from(slot)] += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: u16) {
        let count = &mut self.counts[usize::from(slot)];
        *count = count.saturating_sub(1);
    }

    #[cfg(test)]
    pub(super) fn are_none(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// A connection has ended.
    #[inline]
    pub(super) fn forget(&mut self, was_answered: bool, slot: u16) {
        if !was_answered {
            self.remove(slot);
        }
    }
}
