//! The levels of bits: set one, take some.
//!
//! What must hold: when a bit of a word is set, the word's own bit on the level above is set or
//! will be by whoever set the first bit. Whoever empties a word clears the bit above and then looks
//! at the word once more, or clears the bit above before taking all of the word. A bit above an
//! empty word does no harm.

use std::ops::Range;

use super::ReadySet;
use super::lines::fetch_to_write;
use super::memory::{FAN, FAN_LOG2};
use crate::sync::{AtomicU64, Ordering};

impl ReadySet {
    /// Sets the queue's bit.
    pub(super) fn set(&self, queue: u32) {
        let mut index = queue as usize;
        let mut was_empty = true;
        for level in 0..self.memory.levels() {
            let bit = 1_u64 << (index % FAN);
            index >>= FAN_LOG2;
            let Some(word) = self.memory.word(level, index) else { return };
            // Whoever set the word's first bit sets the one above. When that has not happened yet
            // we do it too: the other one may be descheduled for milliseconds.
            if !was_empty && word.load(Ordering::Relaxed) & bit != 0 {
                return;
            }
            // AcqRel: the claimer sees what happened before; and a bit set after a word was emptied
            // comes after the clearing of the bit above.
            was_empty = word.fetch_or(bit, Ordering::AcqRel) == 0;
        }
    }

    /// Brings the words here in which the queue has its bits, all at once.
    #[inline]
    pub(super) fn fetch_words(&self, queue: u32) {
        let mut index = queue as usize;
        for level in 0..self.memory.levels() {
            index >>= FAN_LOG2;
            if let Some(word) = self.memory.word(level, index) {
                fetch_to_write(word);
            }
        }
    }

    /// Takes every set bit, the lowest first.
    ///
    /// Each word is emptied after its bit above was taken, so there is nothing to clear behind it:
    /// a bit that is set in it before is taken, one that is set later finds the word empty, or the
    /// bit above missing, and sets that one.
    #[inline]
    pub(super) fn take_all(&self, each: &mut impl FnMut(u32)) {
        let top = self.memory.levels() - 1;
        self.take_all_of(top, 0, each);
    }

    fn take_all_of(&self, level: usize, index: usize, each: &mut impl FnMut(u32)) {
        let Some(word) = self.memory.word(level, index) else { return };
        // AcqRel: what was done with these queues before is seen; and who sets a bit in a word
        // below after that was emptied sees this one without its own.
        in_turn(word.swap(0, Ordering::AcqRel), |bit| {
            let child = index * FAN + bit;
            match level {
                0 => each(child as u32),
                _ => self.take_all_of(level - 1, child, each),
            }
            true
        });
    }

    /// Takes set bits from `start` on and around, as long as `left` is not zero. A word without any
    /// counts as well, so that forged bits above do not cost more than real ones.
    pub(super) fn take(&self, start: u32, left: &mut u32, each: &mut impl FnMut(u32)) {
        let end = self.queues() as usize;
        let start = (start as usize) % end;
        let top = self.memory.levels() - 1;
        for range in [start..end, 0..start] {
            if *left > 0 && !range.is_empty() {
                self.take_below(top, 0, &range, left, each);
            }
        }
    }

    /// Of the queues of a range those below one word.
    fn take_below(
        &self,
        level: usize,
        index: usize,
        range: &Range<usize>,
        left: &mut u32,
        each: &mut impl FnMut(u32),
    ) {
        let Some(word) = self.memory.word(level, index) else { return };
        let inside = bits_of(level, index, range);
        if level == 0 {
            let set = word.load(Ordering::Acquire);
            let taken = self.take_leaf(word, index, set & inside, *left);
            let forged = u32::from(set == 0);
            *left = left.saturating_sub(taken.count_ones() + forged);
            in_turn(taken, |bit| {
                each((index * FAN + bit) as u32);
                true
            });
            return;
        }
        // Acquire: pairs with the setting of the bit.
        in_turn(word.load(Ordering::Acquire) & inside, |bit| {
            let child = index * FAN + bit;
            self.take_below(level - 1, child, range, left, each);
            *left > 0
        });
    }

    /// Takes up to `most` of these bits of a leaf.
    fn take_leaf(&self, word: &AtomicU64, index: usize, mut wanted: u64, most: u32) -> u64 {
        while wanted.count_ones() > most {
            // The highest ones stay.
            wanted &= !(1 << wanted.ilog2());
        }
        // AcqRel: what was done with these queues before is seen, and the clearing above the word
        // comes before any bit that is set in it later.
        let before = word.fetch_and(!wanted, Ordering::AcqRel);
        if before & !wanted == 0 {
            self.emptied(0, index);
        }
        // Another consumer may have been faster with some of them.
        before & wanted
    }

    /// The word was found without a bit: nor is there one above, unless something came in between.
    fn emptied(&self, level: usize, index: usize) {
        let above = index >> FAN_LOG2;
        let Some(word) = self.memory.word(level, index) else { return };
        let Some(upper) = self.memory.word(level + 1, above) else { return };
        let bit = 1_u64 << (index % FAN);
        // AcqRel: pairs with the setter's. Either it set the bit above after us, or we see its bit
        // in the word below.
        let before = upper.fetch_and(!bit, Ordering::AcqRel);
        if word.load(Ordering::Acquire) != 0 {
            self.set_above(level + 1, index);
        } else if before & !bit == 0 {
            self.emptied(level + 1, above);
        }
    }

    /// Sets the bits above a word that has one after all.
    fn set_above(&self, level: usize, mut index: usize) {
        for level in level..self.memory.levels() {
            let bit = 1_u64 << (index % FAN);
            index >>= FAN_LOG2;
            let Some(word) = self.memory.word(level, index) else { return };
            if word.fetch_or(bit, Ordering::AcqRel) != 0 {
                return;
            }
        }
    }
}

/// The bits of a word below which queues of the range lie.
#[inline]
fn bits_of(level: usize, index: usize, range: &Range<usize>) -> u64 {
    let shift = FAN_LOG2 * level as u32;
    let first = (range.start >> shift).saturating_sub(index * FAN);
    let end = (((range.end - 1) >> shift) + 1).saturating_sub(index * FAN);
    let below = |bit: usize| if bit >= 64 { u64::MAX } else { (1 << bit) - 1 };
    below(end) & !below(first)
}

/// Calls with the number of each set bit, the lowest first, while that says true.
#[inline]
fn in_turn(mut bits: u64, mut each: impl FnMut(usize) -> bool) {
    while bits != 0 && each(bits.trailing_zeros() as usize) {
        bits &= bits - 1;
    }
}
