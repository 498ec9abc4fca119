//! Datagrams leave: from the rings of UDP sockets, by the next hops that are known.
//!
//! A datagram whose next hop is not known yet is held aside ([`super::unresolved`]), so that nobody
//! waits behind it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{AppId, Nanos, SlotId};
use shm::Frame;
use shm::sockets::{Asks, HEADER_BYTES, Record, RingDesc};
use tcp::IpFields;

use super::options::ip_fields;
use super::unresolved::{Held, Unresolved};
use super::{Sockets, Stats};
use crate::bucket::PacketCost;
use crate::command_queue::SocketEvent;
use crate::datagrams::{Datagrams, Outward};
use crate::frames;
use crate::neighbours::{Neighbours, Question};
use crate::routes::Route;
use datapath::job::Outlet;

/// Datagrams of one socket that are taken from its ring in one turn.
const SENDS: usize = 64;

/// Datagrams that are taken from all rings in one turn: more than there are frames, for one that is
/// dropped or held aside takes none, and would cost its program nothing.
const RECORDS: usize = 256;

/// Time until there may be frames again.
const FRAMES_AFTER: Nanos = Nanos::from_micros(20);

/// EHOSTUNREACH of asm-generic/errno.h.
const EHOSTUNREACH: u32 = 113;

/// What sending needs of the worker.
pub(crate) struct Sending<'a, 'o> {
    pub(crate) neighbours: &'a mut Neighbours,
    pub(crate) spares: &'a mut Vec<Frame>,
    pub(crate) outlet: &'a mut Outlet<'o>,
}

/// How draining a ring ended.
enum Drained {
    /// Nothing is left.
    Empty,
    /// The rest waits for frames or for the rate: when to look again.
    Again(Nanos),
    /// No honest program leaves a ring so.
    Violation,
}

/// Why a datagram does not leave now.
#[derive(Clone, Copy)]
enum Obstacle {
    /// The worker has no frame for it.
    NoFrame,
    /// Its user's rate does not allow it before then.
    Rate(Nanos),
    /// It is longer than a packet.
    TooLong,
    /// It has no address, or its user may not send there.
    Denied,
    /// It is to come from an address that is not its user's.
    Spoofed,
    /// Its next hop is not known.
    NoRoute,
}

impl Sockets {
    /// Sends what marked UDP sockets have written, and what had to wait for its next hop.
    pub(crate) fn send_datagrams(&mut self, sending: &mut Sending<'_, '_>, now: Nanos) {
        self.send_unresolved(sending, now);
        let mut records = RECORDS;
        // Those that are there now; what is left of a socket waits for the next turn.
        for _ in 0..self.outbox.waiting.len() {
            if sending.spares.is_empty() || sending.outlet.room() == 0 {
                // They keep their places: who comes first in every turn takes all frames.
                self.paced.wake_at(now + FRAMES_AFTER);
                break;
            }
            if records == 0 {
                self.paced.wake_at(now);
                break;
            }
            let Some((_, (app, slot))) = self.outbox.waiting.pop() else { break };
            self.datagrams.set_queued((app, slot), false);
            let Some(socket) = self.datagrams_of(app, slot) else {
                // Another worker has ended it.
                self.end_datagrams(app, slot);
                continue;
            };
            let Self { outbox, stats, .. } = self;
            match drain(&socket, sending, &mut outbox.unresolved, stats, &mut records, now) {
                Drained::Empty if self.outbox.ending.contains(&(app, slot)) => {
                    self.end_datagrams(app, slot);
                    continue;
                }
                Drained::Empty => {}
                Drained::Violation => {
                    self.end_datagrams(app, slot);
                    self.post.say(SocketEvent::Violation { app });
                    continue;
                }
                Drained::Again(due) => self.later(app, slot, due),
            }
            self.notify(app, slot);
        }
        let (room, of) = self.post.room_for_questions();
        let unasked = sending.neighbours.forget_questions_beyond(room, of);
        self.stats.next_hops_unasked += unasked as u64;
        for Question { remote, user, is_answer } in sending.neighbours.questions() {
            self.post.say(SocketEvent::Unresolved { remote, user, is_answer });
        }
        if let Some(due) = self.outbox.unresolved.next_deadline() {
            self.paced.wake_at(due);
        }
    }

    /// Has a UDP socket looked at again at `due`.
    pub(super) fn later(&mut self, app: AppId, slot: SlotId, due: Nanos) {
        self.paced.look_at(app, slot, due);
    }

    /// Nobody answers at an address, or no route leads there: what waits for it is dropped, and who
    /// is connected to it is told, as by Linux.
    pub(super) fn unreachable_address(&mut self, remote: IpAddr) {
        for held in self.outbox.unresolved.take(remote) {
            count(&mut self.stats, Obstacle::NoRoute);
            let socket = held.socket;
            let words = socket.app.server.memory().slot(socket.slot);
            if let Some(words) = words.filter(|_| socket.remote.is_some() && !socket.is_over()) {
                words.error.store(EHOSTUNREACH, Ordering::Release);
                self.notify(socket.app.app, socket.slot);
            }
        }
    }

    /// Sends the datagrams whose next hops are known by now, and drops those that have waited for
    /// too long.
    fn send_unresolved(&mut self, sending: &mut Sending<'_, '_>, now: Nanos) {
        let stats = &mut self.stats;
        self.outbox.unresolved.retry(now, |held| {
            let Held { socket, record, payload, until } = held;
            let copy = |to: &mut [u8]| {
                to.copy_from_slice(payload);
                true
            };
            let ends = check(socket, record);
            match ends.and_then(|ends| leave(socket, record, ends, sending, now, copy)) {
                Ok(()) => true,
                Err(Obstacle::NoRoute | Obstacle::NoFrame | Obstacle::Rate(_)) if now < *until => {
                    false
                }
                Err(obstacle) => {
                    count(stats, obstacle);
                    true
                }
            }
        });
    }
}

/// Takes from a socket's ring what can leave, at most `records` datagrams, which it counts down.
fn drain(
    socket: &Arc<Datagrams>,
    sending: &mut Sending<'_, '_>,
    unresolved: &mut Unresolved,
    stats: &mut Stats,
    records: &mut usize,
    now: Nanos,
) -> Drained {
    let memory = socket.app.server.memory();
    let Some(words) = memory.slot(socket.slot) else { return Drained::Empty };
    // Another worker is at it, and looks at what was written before it lets go, or is marked again.
    let Ok(mut tx) = socket.tx.try_lock() else {
        return Drained::Again(now + Nanos::from_micros(50));
    };
    let wished = words.asks().grow();
    let tail = words.tx_tail.load(Ordering::Acquire);
    let used = RingDesc::of_word(words.tx_ring_used.load(Ordering::Acquire));
    let Outward { ring, offered, head } = &mut *tx;
    if let Some(new) = offered.take_if(|new| new.desc() == used)
        && let Some(old) = ring.replace(new)
    {
        socket.app.server.heap().take_back(old);
    }
    let Some(ring) = ring else { return Drained::Empty };
    if wished != 0 {
        words.asks.fetch_and(!Asks::GROW, Ordering::AcqRel);
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
        return Drained::Empty;
    }
    if used != ring.desc() || tail.wrapping_sub(*head) > ring.desc().bytes() {
        return Drained::Violation;
    }
    for _ in 0..SENDS.min(*records) {
        let left = tail - *head;
        if left == 0 {
            return Drained::Empty;
        }
        let mut header = [0; HEADER_BYTES];
        if left < HEADER_BYTES as u64 || !read(socket, ring.desc(), *head, &mut header) {
            return Drained::Violation;
        }
        let Some(record) = Record::decode(&header) else { return Drained::Violation };
        let payload_bytes = record.payload as usize;
        let bytes = Record::bytes(payload_bytes) as u64;
        if bytes > left {
            return Drained::Violation;
        }
        let (desc, from) = (ring.desc(), *head + HEADER_BYTES as u64);
        let copy = |to: &mut [u8]| read(socket, desc, from, to);
        let record = Record { remote: record.remote.or(socket.remote), ..record };
        let left = match check(socket, &record) {
            // Behind those that wait for the same next hop, so that the order stays.
            Ok((remote, _)) if unresolved.waits_for(remote.ip()) => Err(Obstacle::NoRoute),
            Ok(ends) => leave(socket, &record, ends, sending, now, copy),
            Err(obstacle) => Err(obstacle),
        };
        match left {
            Ok(()) => {}
            Err(Obstacle::NoFrame) => return Drained::Again(now + FRAMES_AFTER),
            Err(Obstacle::Rate(due)) => return Drained::Again(due),
            Err(Obstacle::NoRoute) => {
                let is_held = unresolved.hold(socket, record, now, || {
                    let mut payload = vec![0; payload_bytes].into_boxed_slice();
                    copy(&mut payload).then_some(payload)
                });
                stats.datagrams_no_route += u64::from(!is_held);
            }
            Err(obstacle) => count(stats, obstacle),
        }
        *head += bytes;
        words.tx_head.store(*head, Ordering::Release);
        *records -= 1;
    }
    Drained::Again(now)
}

/// Counts a datagram that never leaves.
fn count(stats: &mut Stats, obstacle: Obstacle) {
    match obstacle {
        Obstacle::TooLong => stats.datagrams_too_long += 1,
        Obstacle::Denied => stats.datagrams_denied += 1,
        Obstacle::Spoofed => stats.datagrams_spoofed += 1,
        // Given up: what it waited for has not come.
        Obstacle::NoRoute | Obstacle::NoFrame | Obstacle::Rate(_) => stats.datagrams_no_route += 1,
    }
}

/// To whom a datagram goes and from which address, which may be unspecified; or why it never
/// leaves, whatever way is found.
fn check(socket: &Datagrams, record: &Record) -> Result<(SocketAddr, IpAddr), Obstacle> {
    if record.payload as usize > socket.payload_max {
        return Err(Obstacle::TooLong);
    }
    let remote = record.remote.ok_or(Obstacle::Denied)?;
    if !socket.app.may_send(remote) {
        return Err(Obstacle::Denied);
    }
    match record.local.map(|local| local.to_canonical()) {
        Some(local) if !socket.sources.contains(&local) => Err(Obstacle::Spoofed),
        Some(local) => Ok((remote, local)),
        None => Ok((remote, socket.local.ip())),
    }
}

/// Sends one datagram as `record` says, its payload written by `copy`, between the ends that
/// [`check`] gives.
fn leave(
    socket: &Datagrams,
    record: &Record,
    (remote, wanted): (SocketAddr, IpAddr),
    sending: &mut Sending<'_, '_>,
    now: Nanos,
    copy: impl FnOnce(&mut [u8]) -> bool,
) -> Result<(), Obstacle> {
    let payload_bytes = record.payload as usize;
    let found = sending.neighbours.find(remote.ip(), wanted, socket.app.user, now);
    let found = found.ok_or(Obstacle::NoRoute)?;
    let (route, mut source) = found;
    if wanted.is_unspecified() && !socket.sources.contains(&source) {
        // Others talk to that peer from an address that this user may not have.
        let same = |own: &&IpAddr| own.is_ipv4() == remote.is_ipv4();
        source = *socket.sources.iter().find(same).ok_or(Obstacle::Spoofed)?;
    }
    if sending.outlet.room() == 0 || sending.spares.is_empty() {
        return Err(Obstacle::NoFrame);
    }
    if let Some(rate) = &socket.app.rate {
        let bytes = PacketCost::of_datagram(payload_bytes, remote.is_ipv6());
        rate.take_whole(bytes, now).map_err(Obstacle::Rate)?;
    }
    let from = SocketAddr::new(source, socket.local.port());
    let words = socket.app.server.memory().slot(socket.slot);
    let fields = words.map_or(IpFields::default(), |words| ip_fields(words, remote.is_ipv6()));
    let fields = IpFields {
        class: record.class.unwrap_or(fields.class),
        hop_limit: record.hop_limit.filter(|hops| *hops > 0).unwrap_or(fields.hop_limit),
    };
    let identification = words.and_then(|words| socket.identification(words));
    let ip = (fields, identification);
    if !send(payload_bytes, (from, remote), ip, route, sending, copy) {
        return Err(Obstacle::TooLong);
    }
    socket.recently_sent.note(remote, payload_bytes);
    Ok(())
}

fn read(socket: &Datagrams, desc: RingDesc, at: u64, to: &mut [u8]) -> bool {
    let Some([first, second]) = socket.app.server.memory().pieces(desc, at, to.len()) else {
        return false;
    };
    let copied = first.copy_out(to);
    second.copy_out(&mut to[copied..]);
    true
}

/// Writes a datagram into a frame, which leaves; false when it does not fit into a packet.
fn send(
    payload_bytes: usize,
    (from, to): (SocketAddr, SocketAddr),
    ip: (IpFields, Option<u16>),
    route: Route,
    sending: &mut Sending<'_, '_>,
    copy: impl FnOnce(&mut [u8]) -> bool,
) -> bool {
    let Some(mut frame) = sending.spares.pop() else { return false };
    let place = frames::write_datagram(&route, from, to, ip, payload_bytes, &mut frame);
    let is_written =
        place.is_some_and(|place| frame.bytes_mut().get_mut(place..).is_some_and(copy));
    if is_written {
        sending.outlet.send(frame);
    } else {
        sending.spares.push(frame);
    }
    is_written
}
