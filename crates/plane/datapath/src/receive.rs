//! Step one: frames of a port become a batch.

use base::{ChecksumState, Nanos};
use port::Port;
use shm::Frame;

use crate::counters::DispatchEvent;
use crate::dispatcher::Dispatcher;

impl<P: Port> Dispatcher<P> {
    /// One batch of one port, through classification and dispatch.
    #[inline]
    pub(crate) fn receive_from(&mut self, index: usize, now: Nanos) -> usize {
        let dispatcher_port = &mut self.ports[index];
        debug_assert!(self.batch.is_empty(), "a batch is used up in the step that received it");
        let received = dispatcher_port.port.rx(&mut self.pool, &mut self.batch, now);
        if received == 0 {
            return 0;
        }
        let bytes: usize = self.batch.iter().map(|frame| frame.len()).sum();
        self.apps.counters.add(DispatchEvent::Received, received as u64);
        self.apps.counters.add(DispatchEvent::ReceivedBytes, bytes as u64);
        if !self.captures.is_empty() {
            self.captures.received(index, &self.batch, &self.listeners, now);
        }
        self.classify_batch(index, self.ports[index].address_mask);
        self.dispatch_batch(index, now);
        received
    }

    /// Takes in a packet that no port has received, as if port 0 had: it goes where a received one
    /// of its flow would go, through group lookup, first placement, hold queue and ring, in order
    /// with every barrier. `write` fills an empty frame, and may say more in its meta; when it
    /// returns false there is no packet. False: there was no frame for it now; try again.
    pub fn inject(&mut self, write: impl FnOnce(&mut Frame) -> bool, now: Nanos) -> bool {
        let Some(mut frame) = self.pool.take() else { return false };
        if !write(&mut frame) {
            self.pool.give(frame);
            return true;
        }
        frame.meta_mut().checksum = ChecksumState::Verified;
        self.batch.push(frame);
        // It was on no link, and names nobody there.
        self.classify_batch(0, 0);
        self.dispatch_batch(0, now);
        self.apps.each(&mut self.pool, now, |steering, context| steering.publish(context.now));
        true
    }
}
