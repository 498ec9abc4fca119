//! A set of lanes, a bit each: those that something was put into and that were not shown it.

/// Lanes by index.
#[derive(Clone, Debug)]
pub(super) struct LaneSet {
    words: Vec<u64>,
}

impl LaneSet {
    /// None of `lanes`.
    pub(super) fn new(lanes: usize) -> Self {
        Self { words: vec![0; lanes.div_ceil(64)] }
    }

    /// Adds a lane below the number that the set was made for.
    #[inline]
    pub(super) fn insert(&mut self, lane: usize) {
        self.words[lane / 64] |= 1 << (lane % 64);
    }

    /// Empties the set, lowest first.
    #[inline]
    pub(super) fn drain(&mut self, mut each: impl FnMut(usize)) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                each(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_comes_out_once_in_order_and_then_none() {
        let mut set = LaneSet::new(130);
        [129, 0, 63, 64, 0].into_iter().for_each(|lane| set.insert(lane));
        let mut out = Vec::new();
        set.drain(|lane| out.push(lane));
        assert_eq!(out, [0, 63, 64, 129]);
        set.drain(|lane| panic!("{lane} came twice"));
    }
}
