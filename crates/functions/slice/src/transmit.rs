//! Writing: each packet to the port that its meta names.

use base::{Nanos, PortId};
use port::Port;
use shm::Batch;

use crate::Slice;

impl<P: Port> Slice<P> {
    /// Takes packets from `batch`: one whose meta says `transmit` leaves by the port that it names,
    /// any other goes home unsent. How many were taken; those that did not fit stay, and the caller
    /// decides: write them again, or [`Slice::give_back`]. Packets to one port keep their order.
    ///
    /// A checksum that the meta asks for is completed, by the device where it can. An empty batch
    /// pushes on what earlier calls could not finish.
    #[inline]
    pub fn write_multi(&mut self, batch: &mut Batch, now: Nanos) -> usize {
        let offered = batch.len();
        match self.only_destination(batch) {
            Some(port) => {
                let taken = self.ports[port].tx(&mut self.pool, batch, now);
                self.counters.written += taken as u64;
            }
            None if offered == 0 => self.flush(now),
            None => self.write_mixed(batch, now),
        }
        self.counters.partial_writes += u64::from(!batch.is_empty());
        offered - batch.len()
    }

    /// Takes all of `batch` home, unsent: what cannot wait for room any longer.
    pub fn give_back(&mut self, batch: &mut Batch) {
        self.counters.given_back += batch.len() as u64;
        batch.drain(..).for_each(|frame| self.pool.give(frame));
    }

    /// The port of all packets, when none is to be skipped: then nothing has to be sorted.
    #[inline]
    fn only_destination(&self, batch: &Batch) -> Option<usize> {
        let PortId(port) = batch.first()?.meta().port;
        let same = |frame: &shm::Frame| frame.meta().transmit && frame.meta().port.0 == port;
        (usize::from(port) < self.ports.len() && batch.iter().all(same))
            .then_some(usize::from(port))
    }

    fn write_mixed(&mut self, batch: &mut Batch, now: Nanos) {
        let Self { ports, pool, leaving, counters, .. } = self;
        for frame in batch.drain(..) {
            let meta = frame.meta();
            if !meta.transmit {
                counters.skipped += 1;
                pool.give(frame);
            } else if let Some(queue) = leaving.get_mut(usize::from(meta.port.0)) {
                queue.push(frame);
            } else {
                counters.no_port += 1;
                pool.give(frame);
            }
        }
        for (port, queue) in ports.iter_mut().zip(leaving) {
            if !queue.is_empty() {
                counters.written += port.tx(pool, queue, now) as u64;
                batch.extend(queue.drain(..));
            }
        }
    }
}
