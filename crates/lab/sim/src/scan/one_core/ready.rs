//! Which queues have something.

/// A bit for each queue.
pub(super) struct Ready {
    words: Vec<u64>,
    queues: usize,
}

impl Ready {
    pub(super) fn new(queues: usize) -> Self {
        Self { words: vec![0; queues.div_ceil(64)], queues }
    }

    pub(super) fn set(&mut self, queue: usize) {
        self.words[queue / 64] |= 1 << (queue % 64);
    }

    pub(super) fn clear(&mut self, queue: usize) {
        self.words[queue / 64] &= !(1 << (queue % 64));
    }

    /// How far it is from `from` to the next queue that has something, `from` itself being no way
    /// at all.
    pub(super) fn next_from(&self, from: usize) -> Option<usize> {
        let (word, bit) = (from / 64, from % 64);
        let count = self.words.len();
        // The word where it stands twice: what lies ahead in it first, what lies behind last.
        (0..=count).find_map(|step| {
            let at = (word + step) % count;
            let ahead = u64::MAX << bit;
            let mask = match step {
                0 => ahead,
                last if last == count => !ahead,
                _ => u64::MAX,
            };
            let found = self.words[at] & mask;
            let queue = at * 64 + found.trailing_zeros() as usize;
            (found != 0).then(|| (queue + self.queues - from) % self.queues)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_queue_is_found_all_the_way_round() {
        for queues in [1, 63, 64, 65, 130] {
            for set in 0..queues {
                let mut ready = Ready::new(queues);
                assert_eq!(ready.next_from(set), None);
                ready.set(set);
                for from in 0..queues {
                    assert_eq!(
                        ready.next_from(from),
                        Some((set + queues - from) % queues),
                        "{queues}"
                    );
                }
                ready.clear(set);
            }
        }
    }
}
