//! UDP sockets of applications.
//!
//! Packets to one socket may come to several workers, and its application writes to one ring: so
//! each ring has one worker at a time. Who finds it taken drops what came (UDP may), or leaves what
//! is to be sent to the one who has it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::Nanos;
use shm::Frame;
use shm::sockets::{HEADER_BYTES, Record, RingDesc, RingMemory};
use wire::FlowKey;
use wire::icmp::ErrorMessage;

use super::super::command_queue::{AppSockets, SocketEvent};
use super::super::frames;
use super::super::neighbours::Neighbours;
use super::super::routes::Route;
use super::{Sockets, Stats};
use crate::job::Outlet;

/// Datagrams of one socket that are sent in one look.
const SENDS: usize = 64;

/// A datagram that nobody has a way for yet is looked at again after so long.
const RESOLVE_EVERY: Nanos = Nanos::from_millis(5);

/// So long it waits before it is given up.
const RESOLVE_WITHIN: Nanos = Nanos::from_secs(2);

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
    tx: Mutex<Outward>,
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
struct Outward {
    ring: Option<RingMemory>,
    offered: Option<RingMemory>,
    head: u64,
    /// When the datagram in front, for which no way is known, is given up.
    waits_until: Option<Nanos>,
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
            tx: Mutex::new(Outward { ring: Some(tx), offered: None, head: 0, waits_until: None }),
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

/// What a look at the sending side needs.
pub(in crate::sockets) struct Sending<'a, 'o> {
    pub(in crate::sockets) neighbours: &'a mut Neighbours,
    pub(in crate::sockets) spares: &'a mut Vec<Frame>,
    pub(in crate::sockets) outlet: &'a mut Outlet<'o>,
}

/// How a look ended.
enum Look {
    /// Nothing is left.
    Done,
    /// The rest waits for frames, time or a way.
    Again(Nanos),
    /// The rest waits for a way to an address, which is asked for.
    Unresolved,
    /// What is there cannot be.
    ProtocolViolation,
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
    pub(in crate::sockets) fn deliver(
        &mut self,
        key: &FlowKey,
        payload: &[u8],
        now: Nanos,
    ) -> bool {
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
    pub(in crate::sockets) fn unreachable(&mut self, error: &ErrorMessage) {
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

    /// Sends what UDP sockets have written that were marked.
    pub(in crate::sockets) fn send_datagrams(&mut self, sending: &mut Sending<'_, '_>, now: Nanos) {
        let mut marked = std::mem::take(&mut self.to_send);
        for (app, slot) in marked.drain(..) {
            let Some(socket) = self.datagrams_of(app, slot) else {
                // Another worker has ended it.
                self.end_datagrams(app, slot);
                continue;
            };
            let is_ending = self.ending.contains(&(app, slot));
            match look(&socket, is_ending, sending, &mut self.stats, now) {
                Look::Done if is_ending => {
                    self.end_datagrams(app, slot);
                    continue;
                }
                Look::Done => {}
                Look::ProtocolViolation => {
                    self.end_datagrams(app, slot);
                    self.post.say(SocketEvent::Violation { app });
                    continue;
                }
                Look::Unresolved => self.later(app, slot, now + RESOLVE_EVERY),
                Look::Again(due) => self.later(app, slot, due),
            }
            self.notify(app, slot);
        }
        for remote in sending.neighbours.questions() {
            self.post.say(SocketEvent::Unresolved { remote });
        }
        // In place, so that its memory is used again.
        self.to_send = marked;
    }

    pub(super) fn later(&mut self, app: u16, slot: u32, due: Nanos) {
        self.paced.insert((app, slot));
        self.paced_until = self.paced_until.min(due);
    }
}

/// Looks at what a socket has written; one that is ending waits for ways once, not for each
/// datagram.
fn look(
    socket: &Datagrams,
    is_ending: bool,
    sending: &mut Sending<'_, '_>,
    stats: &mut Stats,
    now: Nanos,
) -> Look {
    let memory = socket.app.server.memory();
    let Some(words) = memory.slot(socket.slot) else { return Look::Done };
    // Another worker is at it, and looks at what was written before it lets go, or is marked again.
    let Ok(mut tx) = socket.tx.try_lock() else { return Look::Again(now + Nanos::from_micros(50)) };
    let wished = words.asks().grow();
    let tail = words.tx_tail.load(Ordering::Acquire);
    let used = RingDesc::of_word(words.tx_ring_used.load(Ordering::Acquire));
    let Outward { ring, offered, head, waits_until } = &mut *tx;
    if let Some(new) = offered.take_if(|new| new.desc() == used)
        && let Some(old) = ring.replace(new)
    {
        socket.app.server.heap().take_back(old);
    }
    let Some(ring) = ring else { return Look::Done };
    if wished != 0 {
        words.asks.fetch_and(0x00ff_ffff, Ordering::AcqRel);
        if offered.is_none()
            && u64::from(wished.min(20)) > u64::from(ring.desc().log2().unwrap_or(0))
        {
            *offered = socket.app.server.heap().lend(wished.min(20));
            if let Some(new) = offered {
                words.tx_ring.store(new.desc().word(), Ordering::Release);
            }
        }
    }
    if tail == *head {
        return Look::Done;
    }
    if used != ring.desc() || tail.wrapping_sub(*head) > ring.desc().bytes() {
        return Look::ProtocolViolation;
    }
    for _ in 0..SENDS {
        let left = tail - *head;
        if left == 0 {
            return Look::Done;
        }
        let mut header = [0; HEADER_BYTES];
        if left < HEADER_BYTES as u64 || !read(socket, ring.desc(), *head, &mut header) {
            return Look::ProtocolViolation;
        }
        let Some(record) = Record::decode(&header) else { return Look::ProtocolViolation };
        let payload = record.payload as usize;
        let bytes = Record::bytes(payload) as u64;
        if bytes > left {
            return Look::ProtocolViolation;
        }
        match plan(socket, &record, sending.neighbours, now) {
            Ok((route, ends)) => {
                if sending.outlet.room() == 0 || sending.spares.is_empty() {
                    return Look::Again(now + Nanos::from_micros(20));
                }
                if let Some(rate) = &socket.app.rate {
                    let (taken, again) = rate.take(payload as u64, now);
                    if taken < payload as u64 {
                        return Look::Again(again);
                    }
                }
                if !send(socket, ring.desc(), *head, payload, ends, route, sending) {
                    stats.datagrams_too_long += 1;
                }
            }
            Err(Hindrance::NoRoute) => {
                if now < *waits_until.get_or_insert(now + RESOLVE_WITHIN) {
                    return Look::Unresolved;
                }
                stats.datagrams_no_route += 1;
            }
            Err(Hindrance::TooLong) => stats.datagrams_too_long += 1,
            Err(Hindrance::Denied) => stats.datagrams_denied += 1,
            Err(Hindrance::Spoofed) => stats.datagrams_spoofed += 1,
        }
        waits_until.take_if(|_| !is_ending);
        *head += bytes;
        words.tx_head.store(*head, Ordering::Release);
    }
    Look::Again(now)
}

/// Why a datagram does not leave.
enum Hindrance {
    /// It is longer than a packet.
    TooLong,
    /// It has no address, or its user may not send there.
    Denied,
    /// It is to come from an address that is not its user's.
    Spoofed,
    /// Nobody knows a way to its address.
    NoRoute,
}

/// By which way a datagram leaves, from where and to whom.
fn plan(
    socket: &Datagrams,
    record: &Record,
    neighbours: &mut Neighbours,
    now: Nanos,
) -> Result<(Route, (SocketAddr, SocketAddr)), Hindrance> {
    if record.payload as usize > socket.payload_max {
        return Err(Hindrance::TooLong);
    }
    let remote = record.remote.or(socket.remote).ok_or(Hindrance::Denied)?;
    if !socket.app.may_send(remote) {
        return Err(Hindrance::Denied);
    }
    let wanted = match record.local.map(|local| local.to_canonical()) {
        Some(local) if !socket.sources.contains(&local) => return Err(Hindrance::Spoofed),
        Some(local) => local,
        None => socket.local.ip(),
    };
    let found = neighbours.find(remote.ip(), wanted, now).ok_or(Hindrance::NoRoute)?;
    let (route, mut source) = found;
    if wanted.is_unspecified() && !socket.sources.contains(&source) {
        // Others talk to that peer from an address that this user may not have.
        let same = |own: &&IpAddr| own.is_ipv4() == remote.is_ipv4();
        source = *socket.sources.iter().find(same).ok_or(Hindrance::Spoofed)?;
    }
    Ok((route, (SocketAddr::new(source, socket.local.port()), remote)))
}

fn read(socket: &Datagrams, desc: RingDesc, at: u64, to: &mut [u8]) -> bool {
    let Some([first, second]) = socket.app.server.memory().pieces(desc, at, to.len()) else {
        return false;
    };
    let copied = first.copy_out(to);
    second.copy_out(&mut to[copied..]);
    true
}

/// Sends a datagram; false when it does not fit into a packet.
fn send(
    socket: &Datagrams,
    desc: RingDesc,
    at: u64,
    payload: usize,
    (from, to): (SocketAddr, SocketAddr),
    route: Route,
    sending: &mut Sending<'_, '_>,
) -> bool {
    let Some(mut frame) = sending.spares.pop() else { return false };
    let place = frames::write_datagram(&route, from, to, payload, &mut frame);
    let is_written = place.is_some_and(|place| {
        let to = frame.bytes_mut().get_mut(place..);
        to.is_some_and(|to| read(socket, desc, at + HEADER_BYTES as u64, to))
    });
    if is_written {
        sending.outlet.send(frame);
    } else {
        sending.spares.push(frame);
    }
    is_written
}
