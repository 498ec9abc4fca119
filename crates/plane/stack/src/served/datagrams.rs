//! UDP sockets of applications.
//!
//! Packets to one socket may come to several workers, and its application writes to one ring: so
//! each ring has one worker at a time. Who finds it taken drops what came (UDP may), or leaves what
//! is to be sent to the one who has it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::Nanos;
use shm::sockets::{HEADER_BYTES, Record, RingMemory};
use wire::FlowKey;
use wire::icmp::ErrorMessage;

use super::Sockets;
use crate::command_queue::{AppSockets, SocketEvent};

/// A UDP socket, as all workers share it.
#[derive(Debug)]
pub struct Datagrams {
    /// Whose.
    pub app: Arc<AppSockets>,
    /// Its slot.
    pub slot: u32,
    /// Where it is bound; an unspecified address: every one of ours.
    pub local: SocketAddr,
    /// From whom alone it hears.
    pub remote: Option<SocketAddr>,
    /// The longest payload that leaves in one packet.
    pub payload_max: usize,
    /// The addresses of ours that its datagrams may leave from.
    pub sources: Vec<IpAddr>,
    rx: Mutex<Inward>,
    pub(super) tx: Mutex<Outward>,
    /// It is closed.
    is_over: AtomicBool,
}

/// The receiving side; positions are the daemon's own.
#[derive(Debug)]
struct Inward {
    ring: Option<RingMemory>,
    tail: u64,
}

/// The sending side.
#[derive(Debug)]
pub(super) struct Outward {
    pub(super) ring: Option<RingMemory>,
    pub(super) offered: Option<RingMemory>,
    pub(super) head: u64,
}

impl Datagrams {
    /// A socket over two rings of its application, which its slot names. `sources` are the
    /// addresses of ours that its user may have; its datagrams leave from no other.
    pub fn new(
        app: Arc<AppSockets>,
        slot: u32,
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
        }
    }

    /// Whether some worker has ended it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends it, once: its rings and its slot go back. Then, whether all that was written had left.
    fn end(&self) -> Option<bool> {
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

    fn hears(&self, key: &FlowKey) -> bool {
        let (to, local) = (key.destination(), self.local);
        !self.is_over()
            && to.port() == local.port()
            && (local.ip() == to.ip() || local.ip().is_unspecified())
            && self.remote.is_none_or(|remote| remote == key.source())
    }

    /// Puts a datagram into the ring; false when it is dropped.
    fn deliver(&self, key: &FlowKey, payload: &[u8]) -> bool {
        let memory = self.app.server.memory();
        let Some(words) = memory.slot(self.slot) else { return false };
        let Ok(mut rx) = self.rx.try_lock() else { return false };
        let Inward { ring: Some(ring), tail } = &mut *rx else { return false };
        let record = Record {
            payload: payload.len() as u32,
            remote: Some(key.source()),
            local: Some(key.destination().ip()),
        };
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

impl Sockets {
    pub(super) fn bind(&mut self, socket: Arc<Datagrams>) {
        if let Some(words) = socket.app.server.memory().slot(socket.slot) {
            words.worker.store(u32::from(self.me.0), Ordering::Release);
        }
        let (app, slot) = (socket.app.app, socket.slot);
        self.datagrams.insert(socket);
        // It may have been another worker's, which has ended with something left to do.
        self.later(app, slot, self.now);
    }

    pub(super) fn datagrams_of(&self, app: u16, slot: u32) -> Option<Arc<Datagrams>> {
        self.datagrams.get((app, slot)).cloned()
    }

    /// Ends a UDP socket at once; false: there is none.
    pub(super) fn end_datagrams(&mut self, app: u16, slot: u32) -> bool {
        self.ending.remove(&(app, slot));
        let Some(socket) = self.datagrams.remove((app, slot)) else { return false };
        // Before its slot is another socket's.
        let generation = socket.app.server.generation(slot);
        let Some(has_left) = socket.end() else { return false };
        self.stats.datagrams_cut_off += u64::from(!has_left);
        self.post.say(SocketEvent::Freed { app, slot, generation });
        true
    }

    /// Ends a UDP socket when what it has written has left.
    pub(super) fn finish_datagrams(&mut self, app: u16, slot: u32) {
        self.ending.insert((app, slot));
        self.to_send.push((app, slot));
    }

    /// A datagram has come. True: somebody has it.
    pub(crate) fn deliver(&mut self, key: &FlowKey, payload: &[u8], now: Nanos) -> bool {
        // Who is connected to this peer goes before who hears everybody, and of those the more
        // exact address.
        let fits = self.datagrams.on(key.destination().port()).filter(|at| at.hears(key));
        let best = fits.max_by_key(|at| (at.remote.is_some(), !at.local.ip().is_unspecified()));
        let Some(socket) = best.cloned() else { return false };
        if !socket.deliver(key, payload) {
            self.stats.datagrams_no_room += 1;
            return true;
        }
        self.notify(socket.app.app, socket.slot);
        self.owed_since.get_or_insert(now);
        true
    }

    /// A datagram of ours did not arrive: who is connected to that peer hears so (as in Linux, of
    /// what is final).
    pub(crate) fn unreachable(&mut self, error: &ErrorMessage) {
        if !error.is_hard() {
            return;
        }
        let port = error.key.destination().port();
        let fits = |at: &&Arc<Datagrams>| at.remote.is_some() && at.hears(&error.key);
        let Some(socket) = self.datagrams.on(port).find(fits).cloned() else { return };
        let Some(words) = socket.app.server.memory().slot(socket.slot) else { return };
        words.error.store(error.errno() as u32, Ordering::Release);
        self.notify(socket.app.app, socket.slot);
    }
}
