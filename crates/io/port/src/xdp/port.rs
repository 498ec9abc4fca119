//! One queue of an interface as a port.
//!
//! Receive: entries of the rx ring become frames, and as many empty frames go into the fill ring.
//! Transmit: frames go into the tx ring, one kick makes the kernel look, and the completion ring
//! brings them back. In copy mode (every driver, veth included) each batch needs its kick; a
//! zero-copy driver asks for one only after it fell asleep.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use base::{BURST, ChecksumState, Nanos, PortId, QueueId};
use shm::{Batch, FramePool};
use sys::netdev::Napi;

use super::if_xdp::XdpDesc;
use super::interface::TIMEOUT;
use super::lent::Lent;
use super::segments::SegmentSocket;
use super::socket::Socket;
use super::{Take, Umem, XdpInterface, XdpOptions};
use crate::{Capabilities, Fault, Filter, Judge, OpenError, Port, PortCounters};

mod send;

use send::is_long;

/// How often an idle port asks the kernel whether its interface still exists.
const FAULT_CHECK_INTERVAL: Nanos = Nanos::from_millis(100);

/// One queue of an interface.
pub struct XdpPort {
    /// `None` once closed.
    socket: Option<Socket>,
    interface: Arc<XdpInterface>,
    id: PortId,
    queue: QueueId,
    lent: Lent,
    fill_target: u32,
    /// Descriptors are in the tx ring that no kick has reached.
    kick_owed: bool,
    busy_poll: bool,
    /// The kernel completes checksums of what we send, or has the device do it.
    completes_checksums: bool,
    /// Where long segments go.
    segments: Option<SegmentSocket>,
    checksum: ChecksumState,
    fault: Option<Fault>,
    fault_checked_at: Nanos,
    counters: PortCounters,
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
        Self::open_filtered(interface, id, queue, umem, pool, options, None)
    }

    /// The same, and receives from the first packet on only what `filter` wants, as far as the
    /// kernel can run it.
    pub(crate) fn open_filtered(
        interface: &Arc<XdpInterface>,
        id: PortId,
        queue: QueueId,
        umem: &Umem,
        pool: &mut FramePool,
        options: &XdpOptions,
        filter: Option<&Filter>,
    ) -> Result<Self, OpenError> {
        options.check()?;
        if !umem.is_of(pool) {
            return Err(OpenError::OtherPool);
        }
        let name = interface.name();
        if u32::from(queue.0) >= interface.queues() {
            let (interface, queues) = (name.to_owned(), interface.queues());
            return Err(OpenError::NoQueue { interface, queue: queue.0, queues });
        }
        // Ethernet header and two VLAN tags (IEEE 802.1ad) come on top of an MTU.
        let max = umem.frame_bytes_max() - 22;
        if interface.mtu() > max {
            let (mtu, chunk_bytes) = (interface.mtu(), umem.chunk_bytes());
            let interface = name.to_owned();
            return Err(OpenError::MtuTooLarge { interface, mtu, max, chunk_bytes });
        }
        let socket = interface.at_home(|| open_socket(interface, queue, umem, pool, options))??;
        interface.direct(queue.0, filter)?;
        interface.deliver(queue.0, socket.as_fd())?;
        let zero_copy = socket.zero_copy;
        let copy = if zero_copy { "zero copy" } else { "copy" };
        let busy_poll = options.busy_poll_micros.is_some();
        let mode =
            [interface.mode().as_str(), copy, if busy_poll { "busy poll" } else { "need wake-up" }]
                .join(", ");
        // A queue between the packet socket and the device would be passed by what the rings send.
        let segments = match interface.is_queueless() {
            true => interface.at_home(|| SegmentSocket::open(interface.index()))?,
            false => None,
        };
        let capabilities = Capabilities {
            kind: "xdp",
            cuts_segments: segments.is_some(),
            name: name.to_owned(),
            mode,
            frame_bytes_max: interface.mtu() + 22,
            mtu: interface.mtu(),
            zero_copy,
            queue,
            queues: interface.queues(),
            needs_wakeup: !zero_copy,
            kernel_answers_arp: interface.take() == Take::Ours,
            trust_link: options.trust_link,
            mac: Some(interface.mac()),
        };
        let checksum =
            if options.trust_link { ChecksumState::Partial } else { ChecksumState::Unknown };
        let mut port = Self {
            socket: Some(socket),
            interface: Arc::clone(interface),
            id,
            queue,
            lent: Lent::new(pool),
            fill_target: options.fill_target(umem.frames()),
            kick_owed: false,
            busy_poll,
            // In copy mode the kernel sees to it whatever the device can do.
            completes_checksums: umem.has_tx_metadata() && !zero_copy,
            segments,
            checksum,
            fault: None,
            fault_checked_at: Nanos::ZERO,
            counters: PortCounters::default(),
            capabilities,
        };
        port.refill(pool);
        Ok(port)
    }

    /// The program on the interface, with what it takes.
    pub fn interface(&self) -> &Arc<XdpInterface> {
        &self.interface
    }

    /// What polls the queue in the kernel.
    ///
    /// # Errors
    /// The interface is down or gone, or the kernel too old to tell.
    pub fn napi(&self) -> Result<Napi, OpenError> {
        let (index, queues) = (self.interface.index(), self.interface.queues());
        let queue = u32::from(self.queue.0);
        Ok(self.interface.at_home(|| sys::netdev::napi_of_queue(index, queue, queues))??)
    }

    /// Gives what polls the queue a thread of its own in the kernel, or takes it away.
    ///
    /// # Errors
    /// As [`Self::napi`], or missing rights.
    pub fn set_threaded(&self, threaded: bool) -> Result<(), OpenError> {
        let id = self.napi()?.id;
        Ok(self.interface.at_home(|| sys::netdev::set_threaded(id, threaded))??)
    }

    /// Whether the queue is polled by our own system calls.
    pub fn is_busy_polled(&self) -> bool {
        self.busy_poll
    }

    /// Frames that the kernel has from this port.
    pub fn frames_in_kernel(&self) -> u32 {
        self.lent.count()
    }

    /// Takes back frames that were sent.
    #[inline]
    fn reclaim_sent(&mut self, pool: &mut FramePool) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        // Bounded by what one call can send, so that it keeps up and yet ends.
        let count = socket.completion.acquire(2 * BURST as u32);
        if count == 0 {
            return;
        }
        for index in 0..count {
            let address = socket.completion.read(index);
            match self.lent.reclaim(pool, address, 0) {
                Some(frame) => pool.give(frame),
                None => self.counters.tx_invalid += 1,
            }
        }
        socket.completion.release(count);
    }

    /// Brings the fill ring up to its target.
    #[inline]
    fn refill(&mut self, pool: &mut FramePool) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        // What was last seen of the kernel's cursor is a bound from above: a shared read is due
        // only when that says "full" although a batch may be missing.
        let mut filled = socket.fill.pending_seen();
        if filled + BURST as u32 > self.fill_target {
            filled = socket.fill.pending();
        }
        let wanted = self.fill_target.saturating_sub(filled);
        // A handful missing is not worth an index store, unless it is all there is.
        if wanted < (BURST as u32 / 4).min(self.fill_target) {
            return;
        }
        let room = socket.fill.acquire(wanted);
        let mut given = 0;
        while given < room {
            let Some(frame) = pool.take() else {
                self.counters.rx_no_frame += 1;
                break;
            };
            let Some(address) = self.lent.lend(pool, frame) else {
                break;
            };
            socket.fill.write(given, address);
            given += 1;
        }
        if given > 0 {
            socket.fill.release(given);
        }
    }

    /// Looks whether an idle interface is gone.
    #[cold]
    fn check_fault(&mut self, now: Nanos) {
        self.fault_checked_at = now;
        if let Some(socket) = &self.socket
            && socket.is_unbound()
        {
            self.fault = Some(Fault::Vanished);
        }
    }
}

/// Opens the socket. The kernel lets go of a queue a moment after its socket has closed, in a
/// work queue, so that one which was just closed (by us, or by a daemon that is being restarted)
/// is still busy: wait that moment.
fn open_socket(
    interface: &XdpInterface,
    queue: QueueId,
    umem: &Umem,
    pool: &FramePool,
    options: &XdpOptions,
) -> Result<Socket, OpenError> {
    let (name, index) = (interface.name(), interface.index());
    let end = sys::clock::now() + TIMEOUT;
    loop {
        match Socket::open(name, index, queue.0, umem, pool, options) {
            Err(OpenError::Busy { .. }) if sys::clock::now() < end => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

impl Port for XdpPort {
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        self.reclaim_sent(pool);
        if self.kick_owed {
            self.kick();
        }
        let Some(socket) = &mut self.socket else {
            return 0;
        };
        let count = socket.rx.acquire(batch.remaining_capacity() as u32);
        let mut received = 0;
        for index in 0..count {
            let XdpDesc { addr, len, options: _ } = socket.rx.read(index);
            let Some(mut frame) = self.lent.reclaim(pool, addr, len) else {
                self.counters.rx_invalid += 1;
                continue;
            };
            let meta = frame.meta_mut();
            meta.received_at = now;
            meta.port = self.id;
            meta.queue = self.queue;
            meta.checksum = self.checksum;
            self.counters.rx_bytes += u64::from(len);
            // The next to read it (a function, or the kernel when it is sent on) is this CPU.
            frame.prefetch();
            batch.push(frame);
            received += 1;
        }
        if count > 0 {
            socket.rx.release(count);
            self.counters.rx_packets += received as u64;
        }
        self.refill(pool);
        let Some(socket) = &self.socket else {
            return received;
        };
        if socket.fill.needs_wakeup() || (self.busy_poll && count == 0) {
            self.counters.wakeups += 1;
            let _ = socket.kick_rx();
        }
        if count == 0 && now.since(self.fault_checked_at) >= FAULT_CHECK_INTERVAL {
            self.check_fault(now);
        }
        received
    }

    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, _now: Nanos) -> usize {
        self.reclaim_sent(pool);
        if self.segments.is_some() && batch.iter().any(is_long) {
            return self.send_mixed(pool, batch);
        }
        self.send_plain(pool, batch, batch.len())
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<Judge, OpenError> {
        self.interface.direct(self.queue.0, filter)
    }

    fn flush(&mut self, pool: &mut FramePool, _now: Nanos) {
        if self.kick_owed {
            self.kick();
        }
        self.reclaim_sent(pool);
    }

    fn prepare_wait(&mut self, pool: &mut FramePool) {
        self.reclaim_sent(pool);
        self.refill(pool);
        if self.kick_owed {
            self.kick();
        }
        // ppoll on the socket then arms the device: its poll handler serves the wake-up flags.
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    fn next_deadline(&self) -> Nanos {
        // Frames that the kernel would not take at once are due at once.
        if self.kick_owed && self.fault.is_none() { Nanos::ZERO } else { Nanos::FAR_FUTURE }
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.counters;
        if let Some(socket) = &self.socket {
            let statistics = socket.statistics();
            counters.rx_ring_full = statistics.rx_ring_full;
            counters.rx_fill_empty = statistics.rx_fill_ring_empty_descs;
            counters.rx_kernel_dropped = statistics.rx_dropped;
            counters.rx_invalid += statistics.rx_invalid_descs;
            counters.tx_invalid += statistics.tx_invalid_descs;
        }
        counters
    }

    fn close(&mut self, pool: &mut FramePool) {
        self.counters = self.counters();
        self.interface.stop_delivery(self.queue.0);
        // Closing waits until the kernel writes into no frame of ours any more (xsk_release ends
        // with a grace period), so after it they are all ours.
        (self.socket, self.segments) = (None, None);
        self.lent.reclaim_all(pool);
    }
}
