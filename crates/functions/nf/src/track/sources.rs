//! How many connections each owner has, and how many of them nobody has answered.
//!
//! An owner is the source that began a connection, an IPv4 address or an IPv6 /64, or whoever else
//! is told to pay for it. Owners that meet in one place share it: with this number of places, and a
//! seed, nobody meets another by choice.

use super::table::Entry;
use super::tuple::{Tuple, hash_of};

/// Why a connection is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// All connections are in use.
    Full,
    /// Its source has as many unanswered ones as it may.
    Source,
    /// Its owner has as many as it may.
    Owner,
}

/// Who pays for a connection: a place that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(pub(super) u16);

const PLACES: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    all: u32,
    unanswered: u32,
}

#[derive(Debug)]
pub(super) struct Sources {
    counts: Box<[Counts]>,
    most: Counts,
    seed: u64,
}

impl Sources {
    pub(super) fn new(all: u32, unanswered: u32, seed: u64) -> Self {
        Self {
            counts: vec![Counts::default(); PLACES].into(),
            most: Counts { all, unanswered },
            seed: seed.rotate_left(17),
        }
    }

    /// The place of whoever sent the packet.
    #[inline]
    pub(super) fn slot(&self, tuple: &Tuple) -> u16 {
        let (high, low) = ((tuple.source >> 64) as u64, tuple.source as u64);
        // Of IPv4 all of the upper half is zero, and the address is in the lower one.
        let of_four = if high == 0 { low } else { 0 };
        self.slot_of([high, of_four])
    }

    #[inline]
    pub(super) fn slot_of(&self, words: [u64; 2]) -> u16 {
        hash_of(self.seed, &words) as u16
    }

    #[inline]
    pub(super) fn has_room(&self, slot: u16) -> Result<(), Refused> {
        let counts = self.counts[usize::from(slot)];
        if counts.unanswered >= self.most.unanswered {
            return Err(Refused::Source);
        }
        if counts.all >= self.most.all { Err(Refused::Owner) } else { Ok(()) }
    }

    /// How many more connections than this owner, with one more, that of an entry has; none where
    /// there are no shares.
    pub(super) fn heavier(&self, slot: u16) -> impl Fn(&Entry) -> u32 {
        let own = match self.most.all {
            u32::MAX => u32::MAX,
            _ => self.counts[usize::from(slot)].all.saturating_add(1),
        };
        move |entry| self.counts[usize::from(entry.source_slot)].all.saturating_sub(own)
    }

    #[inline]
    pub(super) fn add(&mut self, slot: u16) {
        let counts = &mut self.counts[usize::from(slot)];
        (counts.all, counts.unanswered) = (counts.all + 1, counts.unanswered + 1);
    }

    /// One of its connections was answered.
    #[inline]
    pub(super) fn note_answer(&mut self, slot: u16) {
        let counts = &mut self.counts[usize::from(slot)];
        counts.unanswered = counts.unanswered.saturating_sub(1);
    }

    #[cfg(test)]
    pub(super) fn are_none(&self) -> bool {
        self.counts.iter().all(|counts| *counts == Counts::default())
    }

    /// A connection has ended.
    #[inline]
    pub(super) fn forget(&mut self, was_answered: bool, slot: u16) {
        if !was_answered {
            self.note_answer(slot);
        }
        let counts = &mut self.counts[usize::from(slot)];
        counts.all = counts.all.saturating_sub(1);
    }
}
