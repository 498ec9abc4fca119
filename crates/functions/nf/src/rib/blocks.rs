//! Runs of neighbouring numbers, lent out and taken back (buddies: Knowlton, A Fast Storage
//! Allocator, 1965).

use std::collections::BTreeSet;

/// The longest run.
const LONGEST: u32 = 64;
/// Runs are of one, two, four, ... up to [`LONGEST`] numbers.
const SIZES: usize = LONGEST.ilog2() as usize + 1;

/// Numbers from one to a limit.
#[derive(Debug)]
pub(super) struct Blocks {
    /// First numbers of free runs, by the logarithm of their length, of which each is a multiple.
    free: [BTreeSet<u32>; SIZES],
    /// From here on nothing was ever lent: a multiple of [`LONGEST`].
    next: u32,
    limit: u32,
}

impl Blocks {
    /// The numbers below `limit`, zero excepted: as many longest runs as that holds.
    pub(super) fn new(limit: u32) -> Self {
        let mut free: [BTreeSet<u32>; SIZES] = Default::default();
        // Of the first run all but zero.
        if limit >= LONGEST {
            free.iter_mut().zip(0..).take(SIZES - 1).for_each(|(free, size)| {
                free.insert(1 << size);
            });
        }
        Self { free, next: LONGEST, limit }
    }

    /// Whether `runs` of the longest runs could be had.
    pub(super) fn has_room_for(&self, runs: u32) -> bool {
        let fresh = self.limit.saturating_sub(self.next) / LONGEST;
        fresh as usize + self.free[SIZES - 1].len() >= runs as usize
    }

    /// The first of `count` numbers in a row, one to 64; nothing when there are none.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        let size = size_of_run(count);
        // A longer one is cut into halves until one of them is as short as that.
        let (first, longer) = match (size..SIZES).find(|longer| !self.free[*longer].is_empty()) {
            Some(longer) => (self.free[longer].pop_first()?, longer),
            None if self.limit.saturating_sub(self.next) >= LONGEST => {
                self.next += LONGEST;
                (self.next - LONGEST, SIZES - 1)
            }
            None => return None,
        };
        for half in (size..longer).rev() {
            self.free[half].insert(first + (1 << half));
        }
        Some(first)
    }

    /// Takes back what [`Self::take`] gave for `count`; halves that are both free become whole.
    pub(super) fn give(&mut self, first: u32, count: u32) {
        let (mut first, mut size) = (first, size_of_run(count));
        while size < SIZES - 1 && self.free[size].remove(&(first ^ 1 << size)) {
            first &= !(1 << size);
            size += 1;
        }
        self.free[size].insert(first);
    }

    /// Takes back what a run for `before` has more than one for `after` needs, which is less.
    pub(super) fn shorten(&mut self, first: u32, before: u32, after: u32) {
        for half in (size_of_run(after)..size_of_run(before)).rev() {
            self.give(first + (1 << half), 1 << half);
        }
    }
}

fn size_of_run(count: u32) -> usize {
    debug_assert!(0 < count && count <= LONGEST);
    count.next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_number_is_lent_twice_and_all_come_back(
            steps in prop::collection::vec((any::<bool>(), 1..=LONGEST, any::<prop::sample::Index>()), 1..200),
        ) {
            let limit = 512;
            let mut blocks = Blocks::new(limit);
            let mut lent: Vec<(u32, u32)> = Vec::new();
            for (is_take, count, which) in steps {
                if is_take {
                    if let Some(first) = blocks.take(count) {
                        prop_assert!(0 < first && first + count <= limit);
                        for &(other, others) in &lent {
                            prop_assert!(first + count <= other || other + others <= first);
                        }
                        lent.push((first, count));
                    }
                } else if !lent.is_empty() {
                    let (first, count) = lent.swap_remove(which.index(lent.len()));
                    blocks.give(first, count);
                }
            }
            lent.into_iter().for_each(|(first, count)| blocks.give(first, count));
            // Whatever was lent in between: all but the first run, which lacks zero, is whole.
            for _ in 1..limit / LONGEST {
                prop_assert!(blocks.take(LONGEST).is_some());
            }
        }
    }

    #[test]
    fn a_longer_run_is_cut_when_there_is_nothing_else() {
        let mut blocks = Blocks::new(128);
        let whole = blocks.take(64).expect("the second half");
        assert!(!blocks.has_room_for(1));
        assert_eq!(blocks.take(64), None);
        blocks.give(whole, 64);
        let mut all: Vec<u32> = (1..128).map(|_| blocks.take(1).expect("127 of one")).collect();
        assert_eq!(blocks.take(1), None);
        all.sort_unstable();
        assert_eq!(all, (1..128).collect::<Vec<u32>>());
        all.into_iter().for_each(|number| blocks.give(number, 1));
        assert_eq!(blocks.take(64), Some(64), "and it becomes whole again");
    }

    #[test]
    fn what_a_run_is_shortened_by_can_be_lent_again() {
        let mut blocks = Blocks::new(128);
        let first = blocks.take(64).expect("the second half");
        blocks.shorten(first, 64, 16);
        assert_eq!(blocks.take(32), Some(32));
        assert_eq!(blocks.take(32), Some(first + 32));
        blocks.give(first, 16);
        blocks.give(first + 32, 32);
        assert!(blocks.has_room_for(1));
    }
}
