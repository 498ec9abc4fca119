//! Queues of an interface as a port: one of them, or all.
//!
//! Each queue has its own socket and rings ([`super::queue`]), all of them one pool of frames. What
//! is received is taken from queue after queue, one batch after the other; what is sent leaves by
//! the first of them, so that packets of one flow keep their order and a batch needs one kick.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use base::{Nanos, PortId, QueueId};
use shm::{Batch, FramePool};
use sys::netdev::Napi;
use sys::poll_set::PollSet;

use super::queue::{Common, Queue};
use super::{Umem, XdpInterface, XdpOptions};
use crate::hook::Hook;
use crate::{Capabilities, Fault, Filter, Judge, OpenError, Port, PortCounters};

mod open;

pub use open::XdpSockets;

/// How often an idle port asks the kernel whether its interface still exists, and is up.
const FAULT_CHECK_INTERVAL: Nanos = Nanos::from_millis(100);

/// One queue of an interface, or all of its queues.
pub struct XdpPort {
    interface: Arc<XdpInterface>,
    /// At least one; the first one sends.
    queues: Vec<Queue>,
    /// The queue that is looked at next.
    next: usize,
    /// All sockets, when there are several.
    sockets: Option<PollSet>,
    common: Common,
    fault_checked_at: Nanos,
    capabilities: Capabilities,
}

impl XdpPort {
    /// Opens queue `queue` of `interface` over the frames of `pool`, of which `umem` is made, and
    /// fills its fill ring.
    ///
    /// # Errors
    /// No such queue, or one that is in use; an MTU that does not fit; missing rights.
    pub fn open(
        interface: &Arc<XdpInterface>,
        id: PortId,
        queue: QueueId,
        umem: &Umem,
        pool: &mut FramePool,
        options: &XdpOptions,
    ) -> Result<Self, OpenError> {
        if !umem.is_of(pool) {
            return Err(OpenError::OtherPool);
        }
        let sockets = XdpSockets::open(interface, id, Some(queue), umem, options)?;
        Self::with_sockets(interface, sockets, umem, pool, None)
    }

    /// A port of `sockets`, which from the first packet on receives only what `filter` wants, as
    /// far as the kernel can run it.
    pub(crate) fn with_sockets(
        interface: &Arc<XdpInterface>,
        sockets: XdpSockets,
        umem: &Umem,
        pool: &mut FramePool,
        filter: Option<&Filter>,
    ) -> Result<Self, OpenError> {
        if !umem.is_of(pool) {
            return Err(OpenError::OtherPool);
        }
        for (queue, _) in &sockets.sockets {
            interface.direct(queue.0, filter)?;
        }
        let mut port = Self {
            interface: Arc::clone(interface),
            queues: Vec::new(),
            next: 0,
            sockets: None,
            common: sockets.common,
            fault_checked_at: Nanos::ZERO,
            capabilities: sockets.capabilities.clone(),
        };
        port.take(sockets, pool);
        port.deliver()?;
        Ok(port)
    }

    /// Goes on with `sockets` after the interface was removed and has come back: frames that the
    /// old ones had are the pool's again, and what was counted stays counted.
    ///
    /// # Errors
    /// The kernel directs no packets to the new sockets.
    pub fn go_on(&mut self, sockets: XdpSockets, pool: &mut FramePool) -> Result<(), OpenError> {
        self.queues.iter_mut().for_each(|queue| queue.close(pool));
        self.take(sockets, pool);
        // It is seldom up when it comes back: nobody is told that it works before it does.
        self.queues.iter_mut().for_each(Queue::check_fault);
        self.deliver()
    }

    /// Makes queues of `sockets`.
    fn take(&mut self, sockets: XdpSockets, pool: &mut FramePool) {
        let XdpSockets { sockets, segments, poll_set, common, capabilities } = sockets;
        let before = std::mem::take(&mut self.queues);
        (self.sockets, self.common, self.capabilities) = (poll_set, common, capabilities);
        self.queues = sockets
            .into_iter()
            .map(|(number, socket)| {
                let mut queue = Queue::new(number, socket, &common, pool);
                if let Some(before) = before.iter().find(|before| before.number == number) {
                    queue.counters = before.counters;
                }
                queue
            })
            .collect();
        if let Some(first) = self.queues.first_mut() {
            first.segments = segments;
        }
        self.next = 0;
    }

    /// From the next packet on, what is ours comes to the sockets.
    fn deliver(&self) -> Result<(), OpenError> {
        for queue in &self.queues {
            if let Some(socket) = &queue.socket {
                self.interface.deliver(queue.number.0, socket.as_fd())?;
            }
        }
        Ok(())
    }

    /// The program on the interface, with what it takes.
    pub fn interface(&self) -> &Arc<XdpInterface> {
        &self.interface
    }

    /// What polls the first queue in the kernel.
    ///
    /// # Errors
    /// The interface is down or gone, or the kernel too old to tell.
    pub fn napi(&self) -> Result<Napi, OpenError> {
        let (index, queues) = (self.interface.index(), self.interface.queues());
        let queue = u32::from(self.capabilities.queues.first().0);
        Ok(self.interface.at_home(|| sys::netdev::napi_of_queue(index, queue, queues))??)
    }

    /// Gives what polls the first queue a thread of its own in the kernel, or takes it away.
    ///
    /// # Errors
    /// As [`Self::napi`], or missing rights.
    pub fn set_threaded(&self, threaded: bool) -> Result<(), OpenError> {
        let id = self.napi()?.id;
        Ok(self.interface.at_home(|| sys::netdev::set_threaded(id, threaded))??)
    }

    /// Whether the queues are polled by our own system calls.
    pub fn is_busy_polled(&self) -> bool {
        self.common.busy_poll
    }

    /// Frames that the kernel has from this port.
    pub fn frames_in_kernel(&self) -> u32 {
        self.queues.iter().map(Queue::frames_in_kernel).sum()
    }

    /// Looks whether an idle interface is down or gone.
    #[cold]
    fn check_fault(&mut self, now: Nanos) {
        self.fault_checked_at = now;
        self.queues.iter_mut().for_each(Queue::check_fault);
    }
}

impl Port for XdpPort {
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        let before = batch.len();
        if let Some(first) = self.queues.first_mut() {
            first.reclaim_sent(pool);
            if first.kick_owed {
                first.kick();
            }
        }
        // Each queue is looked at once, and the one at which the batch was full comes last next
        // time: a full queue cannot keep us from the others.
        let count = self.queues.len();
        for _ in 0..count {
            let Some(queue) = self.queues.get_mut(self.next) else { break };
            self.next = if self.next + 1 == count { 0 } else { self.next + 1 };
            queue.receive(&self.common, pool, batch, now);
            if batch.is_full() {
                break;
            }
        }
        let received = batch.len() - before;
        if received == 0 && now.since(self.fault_checked_at) >= FAULT_CHECK_INTERVAL {
            self.check_fault(now);
        }
        received
    }

    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, _now: Nanos) -> usize {
        let Some(first) = self.queues.first_mut() else { return 0 };
        first.reclaim_sent(pool);
        first.send(&self.common, pool, batch)
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<Judge, OpenError> {
        let mut judge = Judge::Kernel;
        for queue in &self.queues {
            judge = self.interface.direct(queue.number.0, filter)?;
        }
        Ok(judge)
    }

    fn set_hook(&mut self, filter: Option<&Filter>, hook: &Hook) -> Result<(), String> {
        let queues = self.queues.iter().map(|queue| queue.number.0);
        self.interface.hook(queues, filter, hook)
    }

    fn flush(&mut self, pool: &mut FramePool, _now: Nanos) {
        let Some(first) = self.queues.first_mut() else { return };
        if first.kick_owed {
            first.kick();
        }
        first.reclaim_sent(pool);
    }

    fn prepare_wait(&mut self, pool: &mut FramePool) {
        let are_several = self.queues.len() > 1;
        for queue in &mut self.queues {
            queue.reclaim_sent(pool);
            queue.refill(&self.common, pool);
            if queue.kick_owed {
                queue.kick();
            }
            // ppoll on one socket arms the device: its poll handler serves the wake-up flags.
            if are_several {
                queue.wake_kernel();
            }
        }
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.sockets {
            Some(sockets) => Some(sockets.as_fd()),
            None => self.queues.first()?.socket.as_ref().map(AsFd::as_fd),
        }
    }

    fn next_deadline(&self) -> Nanos {
        // Frames that the kernel would not take at once are due at once, and pieces of a packet
        // that found the batch full.
        let is_due =
            |queue: &Queue| (queue.kick_owed || queue.has_pieces()) && queue.fault.is_none();
        if self.queues.iter().any(is_due) { Nanos::ZERO } else { Nanos::FAR_FUTURE }
    }

    fn fault(&self) -> Option<Fault> {
        self.queues.iter().find_map(|queue| queue.fault)
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> PortCounters {
        let mut counters = PortCounters::default();
        self.queues.iter().for_each(|queue| counters.add(&queue.counters()));
        counters
    }

    fn close(&mut self, pool: &mut FramePool) {
        for queue in &mut self.queues {
            self.interface.stop_delivery(queue.number.0);
            queue.close(pool);
        }
        self.sockets = None;
    }
}
