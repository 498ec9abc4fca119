//! Which chunks one socket has in the kernel.
//!
//! The pool knows that a chunk is with *a* kernel ring; this knows that it is with ours, so that a
//! closed socket can give its chunks back, and a ring that names another socket's chunk is caught.

use shm::{Frame, FramePool};

/// One bit for each chunk of the pool.
#[derive(Debug)]
pub(super) struct Lent {
    words: Box<[u64]>,
    chunk_shift: u32,
    count: u32,
}

impl Lent {
    pub(super) fn new(pool: &FramePool) -> Self {
        let config = pool.config();
        // Chunk 0 is the region's header.
        let words = (config.frames as usize + 1).div_ceil(64);
        Self {
            words: vec![0; words].into_boxed_slice(),
            chunk_shift: config.chunk_bytes.trailing_zeros(),
            count: 0,
        }
    }

    /// Lends a frame: the address for a ring. `None` for a frame of another pool, which is lost.
    #[inline]
    pub(super) fn lend(&mut self, pool: &mut FramePool, frame: Frame) -> Option<u64> {
        let address = pool.lend(frame)?;
        let (word, bit) = self.place(address);
        self.words[word] |= bit;
        self.count += 1;
        Some(address)
    }

    /// Takes back what a ring returned; `None` when we did not lend it.
    #[inline]
    pub(super) fn reclaim(
        &mut self,
        pool: &mut FramePool,
        address: u64,
        len: u32,
    ) -> Option<Frame> {
        let (word, bit) = self.place(address);
        if self.words.get(word)? & bit == 0 {
            return None;
        }
        let frame = pool.reclaim(address, len)?;
        self.words[word] &= !bit;
        self.count -= 1;
        Some(frame)
    }

    /// Takes back everything. Only once the kernel's end is closed.
    pub(super) fn reclaim_all(&mut self, pool: &mut FramePool) {
        for word in 0..self.words.len() {
            while self.words[word] != 0 {
                let bit = self.words[word].trailing_zeros();
                self.words[word] &= self.words[word] - 1;
                let chunk = word as u64 * 64 + u64::from(bit);
                if let Some(frame) = pool.reclaim(chunk << self.chunk_shift, 0) {
                    pool.give(frame);
                }
            }
        }
        self.count = 0;
    }

    /// Chunks that are lent.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    fn place(&self, address: u64) -> (usize, u64) {
        let chunk = address >> self.chunk_shift;
        ((chunk / 64) as usize, 1 << (chunk % 64))
    }
}

#[cfg(test)]
mod tests {
    use shm::PoolConfig;

    use super::*;

    fn pool() -> FramePool {
        let config = PoolConfig { frames: 70, chunk_bytes: 2048, ..PoolConfig::default() };
        FramePool::new(config).expect("a small pool")
    }

    #[test]
    fn a_frame_comes_back_once_and_only_to_the_socket_that_lent_it() {
        let mut pool = pool();
        let (mut ours, mut theirs) = (Lent::new(&pool), Lent::new(&pool));
        let frame = pool.take().expect("it is full");
        let address = ours.lend(&mut pool, frame).expect("our own pool");
        assert!(theirs.reclaim(&mut pool, address, 10).is_none(), "they lent nothing");
        let frame = ours.reclaim(&mut pool, address, 10).expect("we lent it");
        assert_eq!(frame.len(), 10);
        pool.give(frame);
        assert!(ours.reclaim(&mut pool, address, 10).is_none(), "it is back already");
    }

    #[test]
    fn a_frame_that_came_back_is_nothing_of_ours_when_another_socket_lends_it() {
        let mut pool = pool();
        let (mut ours, mut theirs) = (Lent::new(&pool), Lent::new(&pool));
        let frame = pool.take().expect("it is full");
        let address = ours.lend(&mut pool, frame).expect("our own pool");
        let frame = ours.reclaim(&mut pool, address, 0).expect("we lent it");
        assert_eq!(theirs.lend(&mut pool, frame), Some(address));
        assert!(ours.reclaim(&mut pool, address, 0).is_none());
        ours.reclaim_all(&mut pool);
        assert_eq!(pool.outstanding(), 1, "closing ours takes nothing from them");
        theirs.reclaim_all(&mut pool);
        assert_eq!(pool.outstanding(), 0);
    }

    #[test]
    fn an_address_or_length_out_of_bounds_is_refused_and_changes_nothing() {
        let mut pool = pool();
        let mut lent = Lent::new(&pool);
        let frame = pool.take().expect("it is full");
        let address = lent.lend(&mut pool, frame).expect("our own pool");
        assert!(lent.reclaim(&mut pool, u64::MAX, 1).is_none());
        assert!(lent.reclaim(&mut pool, 0, 1).is_none());
        assert!(lent.reclaim(&mut pool, address, 2048).is_none(), "headroom leaves less");
        assert_eq!(lent.count(), 1);
        assert!(lent.reclaim(&mut pool, address, 1).map(|frame| pool.give(frame)).is_some());
    }

    #[test]
    fn closing_brings_every_frame_home() {
        let mut pool = pool();
        let mut lent = Lent::new(&pool);
        while let Some(frame) = pool.take() {
            assert!(lent.lend(&mut pool, frame).is_some());
        }
        assert_eq!((lent.count(), pool.free_count()), (70, 0));
        lent.reclaim_all(&mut pool);
        assert_eq!((lent.count(), pool.free_count()), (0, 70));
    }
}
