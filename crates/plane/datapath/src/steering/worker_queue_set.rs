//! A set of worker queues, a bit each: those that something was put into and that were not shown
//! it.

/// Worker queues by index.
#[derive(Clone, Debug)]
pub(super) struct WorkerQueueSet {
    words: Vec<u64>,
}

impl WorkerQueueSet {
    /// None of `worker_queues`.
    pub(super) fn new(worker_queues: usize) -> Self {
        Self { words: vec![0; worker_queues.div_ceil(64)] }
    }

    /// Adds a worker queue below the number that the set was made for.
    #[inline]
    pub(super) fn insert(&mut self, worker_queue: usize) {
        self.words[worker_queue / 64] |= 1 << (worker_queue % 64);
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
    fn each_worker_queue_comes_out_once_in_order_and_then_none() {
        let mut set = WorkerQueueSet::new(130);
        [129, 0, 63, 64, 0].into_iter().for_each(|worker_queue| set.insert(worker_queue));
        let mut out = Vec::new();
        set.drain(|worker_queue| out.push(worker_queue));
        assert_eq!(out, [0, 63, 64, 129]);
        set.drain(|worker_queue| panic!("{worker_queue} came twice"));
    }
}
