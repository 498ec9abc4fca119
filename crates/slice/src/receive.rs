//! Reading: from every port in turn, until the batch is full.

use base::{Nanos, PortId};
use port::Port;
use shm::{Batch, FramePool};

use crate::Slice;

/// Whose turn it is: the place of the port that is looked at next.
#[derive(Debug, Default)]
pub(crate) struct Turn(usize);

impl<P: Port> Slice<P> {
    /// Appends packets that have come to `batch`, up to its capacity; how many. Each one's meta says
    /// when it was taken, which is `now` or during the wait before, and which port it came from, as the
    /// port's place among the slice's own.
    ///
    /// Every call goes on with the port after the one that the last call ended with, so that a port which
    /// fills whole batches alone keeps no other waiting for more than one batch of each.
    #[inline]
    pub fn read_multi(&mut self, batch: &mut Batch, now: Nanos) -> usize {
        let before = batch.len();
        let Self { ports, pool, turn, found, counters, .. } = self;
        if !found.is_empty() {
            let count = found.len().min(batch.remaining_capacity());
            batch.extend(found.drain(..count));
        }
        turn.receive(ports, pool, batch, now);
        let count = batch.len() - before;
        counters.read += count as u64;
        count
    }
}

impl Turn {
    /// Appends what has come to `ports`, up to the capacity of `batch`.
    #[inline]
    pub(crate) fn receive<P: Port>(
        &mut self,
        ports: &mut [P],
        pool: &mut FramePool,
        batch: &mut Batch,
        now: Nanos,
    ) {
        for _ in 0..ports.len() {
            if batch.is_full() {
                break;
            }
            let index = self.0;
            self.0 = if index + 1 == ports.len() { 0 } else { index + 1 };
            let first = batch.len();
            ports[index].rx(pool, batch, now);
            for frame in &mut batch[first..] {
                frame.meta_mut().port = PortId(index as u16);
            }
        }
    }
}
