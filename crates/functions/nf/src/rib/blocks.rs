//! Runs of neighbouring numbers, lent out and taken back.

/// The longest run.
const LONGEST: u32 = 64;
/// Runs are of one, two, four, ... up to [`LONGEST`] numbers.
const SIZES: usize = LONGEST.ilog2() as usize + 1;
/// Numbers that are kept back so that a removal, which needs smaller runs than it frees, finds
/// them.
const RESERVE: u32 = 1 << 15;

/// Numbers from one to a limit.
#[derive(Debug)]
pub(super) struct Blocks {
    /// First numbers of free runs, by the logarithm of their length.
    free: [Vec<u32>; SIZES],
    /// From here on nothing was ever lent.
    next: u32,
    limit: u32,
}

impl Blocks {
    /// The numbers below `limit`, zero excepted.
    pub(super) fn new(limit: u32) -> Self {
        Self { free: Default::default(), next: 1, limit }
    }

    /// Whether there is as much left as one new route can need.
    pub(super) fn has_room(&self) -> bool {
        self.limit - self.next > RESERVE
    }

    /// The first of `count` numbers in a row, one to 64; nothing when there are none.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        let size = size_of_run(count);
        if let Some(first) = self.free[size].pop() {
            return Some(first);
        }
        let length = 1 << size;
        if self.limit - self.next >= length {
            self.next += length;
            return Some(self.next - length);
        }
        // A longer one is cut into halves until one of them is as short as that.
        let longer = (size + 1..SIZES).find(|longer| !self.free[*longer].is_empty())?;
        let first = self.free[longer].pop()?;
        for half in (size..longer).rev() {
            self.free[half].push(first + (1 << half));
        }
        Some(first)
    }

    /// Takes back what [`Self::take`] gave for `count`.
    pub(super) fn give(&mut self, first: u32, count: u32) {
        self.free[size_of_run(count)].push(first);
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
            let limit = 500;
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
        }
    }

    #[test]
    fn a_longer_run_is_cut_when_there_is_nothing_else() {
        let mut blocks = Blocks::new(65);
        let whole = blocks.take(64).expect("all of it");
        assert_eq!(blocks.take(1), None);
        blocks.give(whole, 64);
        let mut all: Vec<u32> = (0..64).map(|_| blocks.take(1).expect("64 of one")).collect();
        assert_eq!(blocks.take(1), None);
        all.sort_unstable();
        assert_eq!(all, (1..65).collect::<Vec<u32>>());
    }
}
