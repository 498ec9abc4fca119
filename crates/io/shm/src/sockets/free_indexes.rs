//! Numbers below a limit, lent out and taken back by any number of threads without a lock.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Which of `count` places are free.
#[derive(Debug)]
pub struct FreeIndexes {
    /// A bit for each place that is taken.
    words: Box<[AtomicU64]>,
    count: u32,
    /// The lowest word that may have room: low numbers first, so that few pages are touched.
    lowest: AtomicU32,
    taken: AtomicU32,
}

impl FreeIndexes {
    /// `count` free places.
    pub fn new(count: u32) -> Self {
        let words: Box<[AtomicU64]> = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        if let Some(last) = words.last()
            && !count.is_multiple_of(64)
        {
            // No index is behind the end.
            last.store(u64::MAX << (count % 64), Ordering::Relaxed);
        }
        Self { words, count, lowest: AtomicU32::new(0), taken: AtomicU32::new(0) }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many are lent out.
    pub fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether a place is lent out.
    pub fn is_taken(&self, place: u32) -> bool {
        let word = self.words.get((place / 64) as usize);
        place < self.count
            && word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (place % 64)) != 0)
    }

    /// One of the lowest free places.
    pub fn take(&self) -> Option<u32> {
        let start = self.lowest.load(Ordering::Relaxed);
        // Frees behind our back may have been below.
        self.take_from(start).or_else(|| self.take_from(0))
    }

    fn take_from(&self, start: u32) -> Option<u32> {
        for (at, word) in self.words.iter().enumerate().skip(start as usize) {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let bit = bits.trailing_ones();
                let before = word.fetch_or(1 << bit, Ordering::AcqRel);
                if before & (1 << bit) == 0 {
                    self.lowest.store(at as u32, Ordering::Relaxed);
                    self.taken.fetch_add(1, Ordering::Relaxed);
                    return Some(at as u32 * 64 + bit);
                }
                bits = before | (1 << bit);
            }
        }
        None
    }

    /// Takes that place; false when it is lent out, or there is none of that number.
    pub fn take_at(&self, place: u32) -> bool {
        let Some(word) = self.words.get((place / 64) as usize) else { return false };
        let bit = 1 << (place % 64);
        let is_taken = place < self.count && word.fetch_or(bit, Ordering::AcqRel) & bit == 0;
        self.taken.fetch_add(u32::from(is_taken), Ordering::Relaxed);
        is_taken
    }

    /// Gives a place back; one that is not lent out stays as it is, and false is returned.
    pub fn give_back(&self, place: u32) -> bool {
        if place >= self.count {
            return false;
        }
        let Some(word) = self.words.get((place / 64) as usize) else { return false };
        let bit = 1 << (place % 64);
        if word.fetch_and(!bit, Ordering::AcqRel) & bit == 0 {
            return false;
        }
        self.taken.fetch_sub(1, Ordering::Relaxed);
        self.lowest.fetch_min(place / 64, Ordering::Relaxed);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_lent_once_and_the_lowest_first() {
        let places = FreeIndexes::new(70);
        let all: Vec<_> = std::iter::from_fn(|| places.take()).collect();
        assert_eq!(all, (0..70).collect::<Vec<_>>());
        assert_eq!((places.taken(), places.take()), (70, None));
        assert!(places.give_back(66) && places.give_back(3));
        assert!(!places.give_back(3), "it is free already");
        assert!(!places.give_back(70), "there is no such place");
        assert_eq!((places.take(), places.take(), places.take()), (Some(3), Some(66), None));
    }

    #[test]
    fn a_place_is_taken_by_its_number_when_it_is_free() {
        let places = FreeIndexes::new(70);
        assert!(places.take_at(66) && !places.take_at(66) && !places.take_at(70));
        assert_eq!((places.take(), places.taken()), (Some(0), 2));
        assert!(places.give_back(66) && places.take_at(66));
    }

    #[test]
    fn threads_that_take_and_give_back_never_hold_the_same_place() {
        let places = FreeIndexes::new(100);
        let holders: Vec<AtomicU32> = (0..100).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        let Some(place) = places.take() else { continue };
                        assert_eq!(holders[place as usize].fetch_add(1, Ordering::SeqCst), 0);
                        holders[place as usize].fetch_sub(1, Ordering::SeqCst);
                        assert!(places.give_back(place));
                    }
                });
            }
        });
        assert_eq!(places.taken(), 0);
    }
}
