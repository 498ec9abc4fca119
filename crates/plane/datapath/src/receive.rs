//! Step one: frames of a port become a batch.

use base::Nanos;
use port::Port;

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
        self.classify_batch(index);
        self.dispatch_batch(index, now);
        received
    }
}
