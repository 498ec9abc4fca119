//! A bit for each slot, and whether whoever looks at them sleeps.
//!
//! Two levels: a bit of the top word says that a word of bits below is not empty. Who marks sets
//! the bit below first, then, if the word was empty, the one above; who takes clears the one above
//! first. So a ready bit is never left below without a bit above it.

use base::SlotId;

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Who is to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct ReadyBits<'a> {
    /// Not zero while whoever looks sleeps, or is about to.
    pub(super) armed: &'a AtomicU32,
    pub(super) top: &'a [AtomicU64],
    pub(super) leaf: &'a [AtomicU64],
}

impl ReadyBits<'_> {
    /// Marks a slot; true when the reader sleeps and must be woken. A slot that does not exist is
    /// ignored.
    #[inline]
    #[must_use = "a sleeper that is not woken sleeps on"]
    pub fn set(&self, slot: SlotId) -> bool {
        self.put(slot);
        // The ready bit before the look at `armed`; the sleeper does it the other way round.
        fence(Ordering::SeqCst);
        self.armed.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn put(&self, slot: SlotId) {
        let word = slot.index() / 64;
        let Some(leaf) = self.leaf.get(word) else { return };
        // Release: what the ready bit is about is seen by whoever takes it.
        if leaf.fetch_or(1 << (slot.0 % 64), Ordering::AcqRel) == 0 {
            self.put_above(word);
        }
    }

    #[inline]
    fn put_above(&self, word: usize) {
        if let Some(top) = self.top.get(word / 64) {
            top.fetch_or(1 << (word % 64), Ordering::AcqRel);
        }
    }

    /// Takes up to about `limit` marks, beginning at the word `cursor`, which moves on so that
    /// everybody has a turn. How many were taken; what is left stays marked.
    #[inline]
    pub fn take(&self, cursor: &mut u32, limit: usize, mut each: impl FnMut(SlotId)) -> usize {
        let mut taken = 0;
        let words = self.top.len();
        for step in 0..=words {
            let at = (*cursor as usize / 64 + step) % words.max(1);
            let Some(top) = self.top.get(at) else { return taken };
            let mut bits = top.load(Ordering::Relaxed);
            // The first word is looked at twice: from the cursor on, and at the end what is before
            // it.
            let split = u64::MAX << (*cursor % 64);
            if step == 0 {
                bits &= split;
            } else if step == words {
                bits &= !split;
            }
            while bits != 0 {
                if taken >= limit {
                    *cursor = (at * 64) as u32 + bits.trailing_zeros();
                    return taken;
                }
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                top.fetch_and(!(1 << bit), Ordering::AcqRel);
                let word = at * 64 + bit as usize;
                let Some(leaf) = self.leaf.get(word) else { continue };
                let mut slots = leaf.swap(0, Ordering::AcqRel);
                taken += slots.count_ones() as usize;
                while slots != 0 {
                    each(SlotId(word as u32 * 64 + slots.trailing_zeros()));
                    slots &= slots - 1;
                }
            }
        }
        taken
    }

    /// Whether nobody is marked.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// Says that the looking thread is about to sleep. False: there is a ready bit, so stay awake
    /// (and disarm).
    #[must_use = "who sleeps on a mark sleeps too long"]
    pub fn arm(&self) -> bool {
        self.armed.store(1, Ordering::Relaxed);
        // `armed` before the look at the ready bits; who marks does it the other way round.
        fence(Ordering::SeqCst);
        self.is_empty()
    }

    /// Who looks is awake.
    #[inline]
    pub fn disarm(&self) {
        self.armed.store(0, Ordering::Relaxed);
    }

    /// Claims the waking of whoever sleeps; false: somebody else has, or nobody sleeps.
    #[inline]
    pub fn claim_wake(&self) -> bool {
        self.armed.swap(0, Ordering::AcqRel) != 0
    }
}

#[cfg(loom)]
mod loom_tests {
    use loom::thread;

    use super::*;
    use crate::sync::Arc;

    struct Memory {
        armed: AtomicU32,
        top: [AtomicU64; 1],
        leaf: [AtomicU64; 1],
    }

    impl Memory {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                armed: AtomicU32::new(0),
                top: [AtomicU64::new(0)],
                leaf: [AtomicU64::new(0)],
            })
        }

        fn ready_bits(&self) -> ReadyBits<'_> {
            ReadyBits { armed: &self.armed, top: &self.top, leaf: &self.leaf }
        }
    }

    #[test]
    fn loom_a_ready_bit_that_comes_as_its_reader_falls_asleep_is_seen_or_wakes_it() {
        loom::model(|| {
            let memory = Memory::new();
            let other = Arc::clone(&memory);
            let marker = thread::spawn(move || other.ready_bits().set(SlotId(5)));
            let sleeps = memory.ready_bits().arm();
            let wakes = marker.join().expect("the marker does not panic");
            assert!(!sleeps || wakes, "asleep with a mark and nobody rings");
        });
    }

    #[test]
    fn loom_two_who_mark_one_word_while_it_is_taken_are_both_found() {
        loom::model(|| {
            let memory = Memory::new();
            let markers: Vec<_> = [3, 9]
                .into_iter()
                .map(|slot| {
                    let memory = Arc::clone(&memory);
                    thread::spawn(move || memory.ready_bits().set(SlotId(slot)))
                })
                .collect();
            let (mut cursor, mut seen) = (0, 0_u64);
            memory.ready_bits().take(&mut cursor, 64, |slot| seen |= 1 << slot.0);
            for marker in markers {
                marker.join().expect("the marker does not panic");
            }
            memory.ready_bits().take(&mut cursor, 64, |slot| seen |= 1 << slot.0);
            assert_eq!(seen, 1 << 3 | 1 << 9);
        });
    }
}
