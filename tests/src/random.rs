//! Random numbers that are the same everywhere.

/// A generator: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// One below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.any() % end as u64) as usize
    }

    /// True that many times in a thousand.
    pub fn per_mille(&mut self, times: u64) -> bool {
        self.any() % 1000 < times
    }

    /// True that many times in a hundred.
    pub fn percent(&mut self, times: u64) -> bool {
        self.any() % 100 < times
    }

    /// One of a list that is not empty.
    pub fn pick<'list, T>(&mut self, list: &'list [T]) -> &'list T {
        &list[self.below(list.len())]
    }
}
