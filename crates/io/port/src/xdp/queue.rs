//! One queue of an interface: frames into and out of the four rings of its socket.
//!
//! Receive: entries of the rx ring become frames, and as many empty frames go into the fill ring.
//! Transmit: frames go into the tx ring, one kick makes the kernel look, and the completion ring
//! brings them back. In copy mode (every driver, veth included) each batch needs its kick; a
//! zero-copy driver asks for one only after it fell asleep.

use base::{BURST, ChecksumState, FrameMeta, Nanos, PortId, QueueId};
use shm::{Batch, FramePool};

use super::chain::{Chain, Link};
use super::if_xdp::{XDP_PKT_CONTD, XdpDesc};
use super::lent::Lent;
use super::segments::SegmentSocket;
use super::socket::{Kick, Socket};
use crate::{Fault, PortCounters};

mod send;

/// What holds for all queues of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) id: PortId,
    /// Frames kept in the fill ring of each queue.
    pub(super) fill_target: u32,
    pub(super) frame_bytes_max: u32,
    /// Bytes of the longest packet that the kernel puts into one frame.
    pub(super) chunk_room: u32,
    pub(super) link: Link,
    pub(super) busy_poll: bool,
    pub(super) needs_wakeup: bool,
    /// The kernel completes checksums of what we send, or has the device do it.
    pub(super) completes_checksums: bool,
    /// What is known of a received packet's checksum.
    pub(super) checksum: ChecksumState,
}

/// One queue.
pub(super) struct Queue {
    pub(super) number: QueueId,
    /// `None` once closed.
    pub(super) socket: Option<Socket>,
    lent: Lent,
    /// A packet of several frames.
    chain: Chain,
    /// Where long segments go; `None`: they cannot be sent, or another queue sends them.
    pub(super) segments: Option<SegmentSocket>,
    /// Descriptors are in the tx ring that no kick has reached.
    pub(super) kick_owed: bool,
    pub(super) fault: Option<Fault>,
    pub(super) counters: PortCounters,
}

impl Queue {
    /// Queue `number` by `socket`, its fill ring full of frames of `pool`.
    pub(super) fn new(
        number: QueueId,
        socket: Socket,
        common: &Common,
        pool: &mut FramePool,
    ) -> Self {
        let mut queue = Self {
            number,
            socket: Some(socket),
            lent: Lent::new(pool),
            chain: Chain::new(common.chunk_room),
            segments: None,
            kick_owed: false,
            fault: None,
            counters: PortCounters::default(),
        };
        queue.refill(common, pool);
        queue
    }

    /// Frames that the kernel has from this queue.
    pub(super) fn frames_in_kernel(&self) -> u32 {
        self.lent.count()
    }

    /// Appends received frames to `batch`, up to its capacity, and gives the kernel empty ones;
    /// how many came.
    #[inline]
    pub(super) fn receive(
        &mut self,
        common: &Common,
        pool: &mut FramePool,
        batch: &mut Batch,
        now: Nanos,
    ) -> usize {
        let Some(socket) = &mut self.socket else {
            return 0;
        };
        let meta = FrameMeta {
            received_at: now,
            port: common.id,
            queue: self.number,
            checksum: common.checksum,
            ..FrameMeta::UNKNOWN
        };
        let mut received = 0;
        if self.chain.is_cut() {
            received += self.chain.cut_into(batch, meta, pool, &mut self.counters);
        }
        let mut count = socket.rx.acquire(batch.remaining_capacity() as u32);
        let mut index = 0;
        while index < count {
            let XdpDesc { addr, len, options } = socket.rx.read(index);
            index += 1;
            let Some(mut frame) = self.lent.reclaim(pool, addr, len) else {
                self.counters.rx_invalid += 1;
                continue;
            };
            let is_continued = options & XDP_PKT_CONTD != 0;
            if is_continued || len > common.frame_bytes_max || !self.chain.is_empty() {
                let counters = &mut self.counters;
                self.chain.add(frame, !is_continued, common.link, pool, counters);
                received += self.chain.cut_into(batch, meta, pool, counters);
                // One packet fills more of the batch than it had entries in the ring.
                count = count.min(index + batch.remaining_capacity() as u32);
                continue;
            }
            let own = frame.meta_mut();
            own.received_at = meta.received_at;
            own.port = meta.port;
            own.queue = meta.queue;
            own.checksum = meta.checksum;
            self.counters.rx_bytes += u64::from(len);
            // The next to read it (a function, or the kernel when it is sent on) is this CPU.
            frame.prefetch();
            batch.push(frame);
            received += 1;
        }
        if count > 0 {
            socket.rx.release(count);
        }
        self.counters.rx_packets += received as u64;
        self.refill(common, pool);
        let Some(socket) = &self.socket else {
            return received;
        };
        if socket.fill.needs_wakeup() || (common.busy_poll && count == 0) {
            self.counters.wakeups += 1;
            let _ = socket.kick_rx();
        }
        received
    }

    /// Whether pieces of a packet wait for the next batch.
    pub(super) fn has_pieces(&self) -> bool {
        self.chain.is_cut()
    }

    /// Takes back frames that were sent.
    #[inline]
    pub(super) fn reclaim_sent(&mut self, pool: &mut FramePool) {
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
    pub(super) fn refill(&mut self, common: &Common, pool: &mut FramePool) {
        let target = common.fill_target;
        let Some(socket) = &mut self.socket else {
            return;
        };
        // What was last seen of the kernel's cursor is a bound from above: a shared read is due
        // only when that says "full" although a batch may be missing.
        let mut filled = socket.fill.pending_seen();
        if filled + BURST as u32 > target {
            filled = socket.fill.pending();
        }
        let wanted = target.saturating_sub(filled);
        // A handful missing is not worth an index store, unless it is all there is.
        if wanted < (BURST as u32 / 4).min(target) {
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

    /// Has the kernel look at rings of which it said that it sleeps on them. Waiting for the socket
    /// itself does that, waiting for a set of sockets does not.
    pub(super) fn wake_kernel(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        if socket.fill.needs_wakeup() {
            self.counters.wakeups += 1;
            let _ = socket.kick_rx();
        }
    }

    /// Looks whether the interface of an idle queue is down or gone.
    #[cold]
    pub(super) fn check_fault(&mut self) {
        let Some(socket) = &self.socket else { return };
        if socket.is_unbound() {
            self.fault = Some(Fault::Vanished);
        }
        if self.fault == Some(Fault::Vanished) {
            return;
        }
        // Whatever the kernel is asked to look at, it looks at the interface first (recvmsg of
        // AF_XDP, since Linux 5.11).
        match socket.kick_rx() {
            Kick::Down => self.fault = Some(Fault::Down),
            Kick::Gone => self.fault = Some(Fault::Vanished),
            Kick::Taken => self.fault = None,
            Kick::Again => {}
        }
    }

    /// What it has counted, and the kernel for it.
    pub(super) fn counters(&self) -> PortCounters {
        let mut counters = self.counters;
        if let Some(socket) = &self.socket {
            let statistics = socket.statistics();
            counters.rx_ring_full += statistics.rx_ring_full;
            counters.rx_fill_empty += statistics.rx_fill_ring_empty_descs;
            counters.rx_kernel_dropped += statistics.rx_dropped;
            counters.rx_invalid += statistics.rx_invalid_descs;
            counters.tx_invalid += statistics.tx_invalid_descs;
        }
        counters
    }

    /// Gives every frame back. The caller has ended delivery.
    pub(super) fn close(&mut self, pool: &mut FramePool) {
        self.counters = self.counters();
        // Closing waits until the kernel writes into no frame of ours any more (xsk_release ends
        // with a grace period), so after it they are all ours.
        (self.socket, self.segments) = (None, None);
        self.chain.give_back(pool);
        self.lent.reclaim_all(pool);
    }
}
