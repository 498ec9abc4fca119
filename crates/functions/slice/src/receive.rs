//! Reading: from every port in turn, until the batch is full.

use base::{ChecksumState, Nanos, PortId};
use port::{LinkChecksums, Port};
use shm::{Batch, FramePool};

use crate::filter::Filtering;
use crate::{Slice, SliceCounters};

/// What receiving needs of a slice.
pub(crate) struct Intake<'slice, P> {
    pub(crate) ports: &'slice mut [P],
    pub(crate) pool: &'slice mut FramePool,
    /// The place of the port whose turn it is.
    pub(crate) turn: &'slice mut usize,
    pub(crate) filtering: &'slice Filtering,
    pub(crate) counters: &'slice mut SliceCounters,
}

impl<P: Port> Slice<P> {
    /// Appends packets that have come to `batch`, up to its capacity; how many. Each one's meta
    /// says when it was taken, which is `now` or during the wait before, and which port it came
    /// from, as the port's place among the slice's own.
    ///
    /// Every call goes on with the port after the one that the last call ended with, so that a port
    /// which fills whole batches alone keeps no other waiting for more than one batch of each.
    #[inline]
    pub fn read_multi(&mut self, batch: &mut Batch, now: Nanos) -> usize {
        let before = batch.len();
        let (mut intake, found) = self.intake();
        if !found.is_empty() {
            let count = found.len().min(batch.remaining_capacity());
            batch.extend(found.drain(..count));
        }
        intake.receive(batch, now);
        let count = batch.len() - before;
        self.counters.read += count as u64;
        count
    }

    /// The same, up to `max` packets.
    pub fn read_up_to(&mut self, batch: &mut Batch, max: usize, now: Nanos) -> usize {
        if max >= batch.remaining_capacity() {
            return self.read_multi(batch, now);
        }
        let (mut intake, found) = self.intake();
        if found.is_empty() {
            intake.receive(found, now);
        }
        let count = max.min(found.len());
        batch.extend(found.drain(..count));
        self.counters.read += count as u64;
        count
    }

    /// What receiving needs, and what a wait has found.
    #[inline]
    pub(crate) fn intake(&mut self) -> (Intake<'_, P>, &mut Batch) {
        let Self { ports, pool, turn, filtering, counters, found, .. } = self;
        (Intake { ports, pool, turn, filtering, counters }, found)
    }
}

impl<P: Port> Intake<'_, P> {
    /// Appends what has come to the ports, up to the capacity of `batch`.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch, now: Nanos) {
        for _ in 0..self.ports.len() {
            if batch.is_full() {
                break;
            }
            let index = *self.turn;
            *self.turn = if index + 1 == self.ports.len() { 0 } else { index + 1 };
            let first = batch.len();
            self.ports[index].rx(self.pool, batch, now);
            self.filtering.judge(index, batch, first, self.pool, self.counters);
            // What a kernel of this host has left open must not leave unchanged.
            let may_be_open =
                self.ports[index].capabilities().checksums == LinkChecksums::MayBeOpen;
            for frame in &mut batch[first..] {
                let meta = frame.meta_mut();
                meta.port = PortId(index as u16);
                if may_be_open && meta.checksum == ChecksumState::Unknown {
                    meta.checksum = ChecksumState::Partial;
                }
            }
        }
    }
}
