//! A UDP socket of an application.
//!
//! Packets to one socket may come to several workers, and its application writes to one ring: so
//! each ring has one worker at a time. Who finds it taken drops what came (UDP may), or leaves what
//! is to be sent to the worker that has it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{SlotId, WorkerId};
use shm::sockets::{HEADER_BYTES, Record, RingMemory, SlotOption, SlotWords};
use wire::FlowKey;
use wire::icmp::{ErrorKind, ErrorMessage};

use crate::app_sockets::AppSockets;
use crate::recently_sent::{RecentlySent, header_bytes, path_mtu_min};

/// A UDP socket, as all workers share it.
#[derive(Debug)]
pub struct Datagrams {
    /// Whose.
    pub app: Arc<AppSockets>,
    /// Its slot.
    pub slot: SlotId,
    /// Where it is bound; an unspecified address: every one of ours.
    pub local: SocketAddr,
    /// From whom alone it hears.
    pub remote: Option<SocketAddr>,
    /// The longest payload that leaves in one packet.
    pub payload_max: usize,
    /// The addresses of ours that its datagrams may leave from.
    pub sources: Vec<IpAddr>,
    rx: Mutex<Inward>,
    pub(crate) tx: Mutex<Outward>,
    /// It is closed.
    is_over: AtomicBool,
    /// The identification of its next packet that routers may cut.
    identification: AtomicU16,
    /// What it has sent lately that a router may find too long.
    pub(crate) recently_sent: RecentlySent,
}

/// The receiving side; positions are the daemon's own.
#[derive(Debug)]
struct Inward {
    ring: Option<RingMemory>,
    tail: u64,
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct Outward {
    pub(crate) ring: Option<RingMemory>,
    pub(crate) offered: Option<RingMemory>,
    pub(crate) head: u64,
}

impl Datagrams {
    /// A socket over two rings of its application, which its slot names. `sources` are the
    /// addresses of ours that its user may have; its datagrams leave from no other.
    pub fn new(
        app: Arc<AppSockets>,
        slot: SlotId,
        local: SocketAddr,
        remote: Option<SocketAddr>,
        payload_max: usize,
        sources: Vec<IpAddr>,
        (rx, tx): (RingMemory, RingMemory),
    ) -> Self {
        Self {
            app,
            slot,
            local,
            remote,
            payload_max,
            sources,
            rx: Mutex::new(Inward { ring: Some(rx), tail: 0 }),
            tx: Mutex::new(Outward { ring: Some(tx), offered: None, head: 0 }),
            is_over: AtomicBool::new(false),
            identification: AtomicU16::new(0),
            recently_sent: RecentlySent::new(),
        }
    }

    /// The same, whose packets that routers may cut (IP_MTU_DISCOVER) are numbered from `first` on:
    /// others cannot guess the numbers, and those of one socket come again after 65,536 packets, as
    /// Linux has it (RFC 6864 section 4.3 asks for no more of what is not to be cut in fact).
    #[must_use]
    pub fn numbered_from(mut self, first: u16) -> Self {
        self.identification = AtomicU16::new(first);
        self
    }

    /// The identification of the next packet; none: it is not to be cut.
    pub(crate) fn identification(&self, words: &SlotWords) -> Option<u16> {
        let may_be_cut = words.option(SlotOption::MayBeCut) != 0;
        may_be_cut.then(|| self.identification.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether its program has written something that no worker has taken. One that is taking just
    /// now may miss it.
    pub(crate) fn has_written(&self, words: &SlotWords) -> bool {
        let tail = words.tx_tail.load(Ordering::Acquire);
        self.tx.try_lock().map_or(true, |tx| tx.head != tail)
    }

    /// Says that a worker looks at it from now on; false: it is over, and its slot is no longer its
    /// own.
    pub(crate) fn is_served_by(&self, worker: WorkerId) -> bool {
        // Whoever ends it has the lock until the slot is given back; whoever sends has it and is
        // said to look at it already.
        if let Ok(_tx) = self.tx.try_lock()
            && !self.is_over()
            && let Some(words) = self.app.server.memory().slot(self.slot)
        {
            words.worker.store(u32::from(worker.0), Ordering::Release);
        }
        !self.is_over()
    }

    /// Whether some worker has ended it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends it, once: its rings and its slot go back. Then, whether all that was written had left.
    pub(crate) fn end(&self) -> Option<bool> {
        if self.is_over.swap(true, Ordering::AcqRel) {
            return None;
        }
        let server = &self.app.server;
        let mut rx = self.rx.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tx = self.tx.lock().unwrap_or_else(PoisonError::into_inner);
        let words = server.memory().slot(self.slot);
        let has_left = words.is_none_or(|words| words.tx_tail.load(Ordering::Acquire) == tx.head);
        let rings = [rx.ring.take(), tx.ring.take(), tx.offered.take()];
        rings.into_iter().flatten().for_each(|ring| server.heap().take_back(ring));
        server.take_back_slot(self.slot);
        Some(has_left)
    }

    /// Whether it takes packets of this name.
    pub(crate) fn hears(&self, key: &FlowKey) -> bool {
        let (to, local) = (key.destination(), self.local);
        !self.is_over()
            && to.port() == local.port()
            && (local.ip() == to.ip() || local.ip().is_unspecified() && self.takes(to.ip()))
            && self.remote.is_none_or(|remote| remote == key.source())
    }

    /// Whether it takes the family of `address`: a socket of IPv6 alone (IPV6_V6ONLY) leaves IPv4
    /// to another one of its port, and has no address of IPv4 to send from.
    fn takes(&self, address: IpAddr) -> bool {
        self.sources.iter().any(|own| own.is_ipv4() == address.is_ipv4())
    }

    /// Bytes of the longest packet to whom the quoted datagram went, if the error says so and it is
    /// about one that this socket has sent lately, which did not fit.
    pub(crate) fn narrow_path(&self, error: &ErrorMessage) -> Option<u16> {
        let ErrorKind::TooBig { mtu } = error.kind else { return None };
        let is_ipv6 = error.key.is_ipv6();
        let payload = error.datagram_bytes.checked_sub(8)?;
        let mtu = mtu.max(path_mtu_min(is_ipv6).into());
        let mtu = u16::try_from(mtu).ok()?;
        let was_too_long = payload.saturating_add(header_bytes(is_ipv6)) > mtu;
        (was_too_long && self.recently_sent.has(error.key.source(), payload.into())).then_some(mtu)
    }

    /// Puts a datagram into the ring; false when it is dropped.
    pub(crate) fn deliver(&self, record: &Record, payload: &[u8]) -> bool {
        let memory = self.app.server.memory();
        let Some(words) = memory.slot(self.slot) else { return false };
        let Ok(mut rx) = self.rx.try_lock() else { return false };
        let Inward { ring: Some(ring), tail } = &mut *rx else { return false };
        let bytes = Record::bytes(payload.len()) as u64;
        // What the application says it has read can only make its own ring smaller.
        let unread = tail.wrapping_sub(words.rx_head.load(Ordering::Acquire));
        let desc = ring.desc();
        if unread > desc.bytes() || desc.bytes() - unread < bytes {
            return false;
        }
        for (at, part) in [(*tail, &record.encode()[..]), (*tail + HEADER_BYTES as u64, payload)] {
            let Some([first, second]) = memory.pieces(desc, at, part.len()) else { return false };
            let copied = first.copy_in(part);
            second.copy_in(&part[copied..]);
        }
        *tail += bytes;
        words.rx_tail.store(*tail, Ordering::Release);
        true
    }
}
