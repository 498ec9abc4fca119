//! Which places of a heap are in memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of places. A place is added and removed by whoever has it, so that two threads never
/// change the same one at once.
#[derive(Debug)]
pub(super) struct Resident {
    words: Box<[AtomicU64]>,
}

impl Resident {
    /// None of `places` is in memory.
    pub(super) fn new(places: u32) -> Self {
        let words = (0..places.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { words }
    }

    pub(super) fn has(&self, place: u32) -> bool {
        let word = self.words.get((place / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (place % 64)) != 0)
    }

    pub(super) fn add(&self, place: u32) {
        let Some(word) = self.words.get((place / 64) as usize) else { return };
        let bit = 1_u64 << (place % 64);
        word.fetch_or(bit, Ordering::AcqRel);
    }

    pub(super) fn remove(&self, place: u32) {
        let Some(word) = self.words.get((place / 64) as usize) else { return };
        let bit = 1_u64 << (place % 64);
        word.fetch_and(!bit, Ordering::AcqRel);
    }

    /// All that are in memory, the highest first, as seen word by word.
    pub(super) fn places_from_the_last(&self) -> impl Iterator<Item = u32> {
        self.words.iter().enumerate().rev().flat_map(|(at, word)| {
            let mut bits = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = bits.checked_ilog2()?;
                bits &= !(1 << bit);
                Some(at as u32 * 64 + bit)
            })
        })
    }
}
