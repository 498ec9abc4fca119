//! Sockets for datagrams.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use attach::FallbackReason;
use base::Nanos;
use port::xdp::{Destination, Protocol};
use rustix::io::Errno;
use rustix::net::sockopt;
use shm::sockets::{Asks, Kind};
use stack::{Command, Datagrams};
use sys::socket_owner::Transport;
use sys::{clock, socket};

use super::super::answer::{Answer, Context, Refusal};
use super::super::app::App;
use super::super::aside::Passed;
use super::super::examine::{Examined, covers};
use super::super::guards::destination;
use super::super::names::SlotKey;
use super::super::reach::{Cause, REACH_MAX, next_look};
use super::super::records::{Bound, Record, What};
use super::super::rights::Holder;
use super::super::routes::{Reach, Whither};
use super::super::waiting::Unresolved;
use super::SocketTable;
use crate::attach_server_counters::AttachServerEvent;

/// Bytes of a receive ring, as logarithms: as much as Linux gives a socket, and at most.
const RECEIVE_LOG2: u8 = 18;
const RECEIVE_LOG2_MAX: u8 = 22;

/// A socket that its program has closed and offers again is waited for this long at most, once, and
/// as far as its user has budget left: the others who call the attach server wait, too. And the
/// time between two looks whether it is gone.
const ENDED_WITHIN: Nanos = Nanos::from_millis(20);
const ENDED_EVERY: Duration = Duration::from_micros(50);

/// Bytes of a send ring at first, and at most, as logarithms. Who uses UDP_SEGMENT asks for a
/// longer one than the first.
const SEND_LOG2: u8 = 16;
const SEND_LOG2_MAX: u8 = 20;

impl SocketTable {
    /// Serves a bound kernel socket for datagrams on our interfaces.
    pub(super) fn udp(
        &mut self,
        context: &mut Context<'_>,
        socket: &Passed,
        remote: Option<SocketAddr>,
    ) -> Result<Answer, Refusal> {
        let examined = self.examine(context, socket, wire::Protocol::Udp)?;
        self.bind_datagrams(context, &examined, remote.map(socket::canonical))
    }

    fn bind_datagrams(
        &mut self,
        context: &mut Context<'_>,
        examined: &Examined,
        remote: Option<SocketAddr>,
    ) -> Result<Answer, Refusal> {
        if examined.local.port() == 0 {
            return Err(FallbackReason::WrongState.into());
        }
        if let Some((region, slot)) = self.datagrams_of(context, examined.cookie)? {
            return Ok(Answer::slot((region, slot)));
        }
        if let Some(why) = self.network.guarded(context.member.pid, context.now) {
            return Err(why.into());
        }
        if let Some(remote) = remote {
            match self.network.neighbours.find(remote.ip(), None) {
                Whither::Out(_) => {}
                Whither::Local { .. } => {
                    return Err(FallbackReason::LoopbackPeerNotAccelerated.into());
                }
                Whither::Many { is_broadcast: true } => {
                    return Err(FallbackReason::Broadcast.into());
                }
                Whither::Many { is_broadcast: false } => {
                    return Err(FallbackReason::Multicast.into());
                }
                Whither::Elsewhere => return Err(FallbackReason::NoRouteHere.into()),
            }
        }
        let app = self.apps.get(context.member.app).ok_or(Refusal::Errno(Errno::INVAL))?;
        if remote.is_some_and(|remote| !app.tenant.may_connect(remote)) {
            return Err(Refusal::denied(app.tenant.denied));
        }
        let takes = (examined.takes_v4, examined.takes_v6);
        let own = self.network.neighbours.addresses().iter();
        let own = own.filter(|ip| covers(examined.local.ip(), takes, **ip));
        let own: Vec<_> = own.map(|ip| SocketAddr::new(*ip, examined.local.port())).collect();
        if own.is_empty() {
            return Err(FallbackReason::NoRouteHere.into());
        }
        let own_count = own.len();
        let permitted = own.into_iter().filter(|at| app.tenant.may_listen(app.uid, *at));
        let permitted: Vec<_> = permitted.collect();
        let to = permitted.iter().map(|at| destination(Protocol::Udp, *at));
        let destinations: Vec<_> = to.collect();
        if destinations.is_empty() {
            return Err(Refusal::denied(app.tenant.denied));
        }
        if destinations.iter().any(|at| context.claims.has(*at)) {
            self.free_what_is_closed_at(context, &destinations);
        }
        let app = self.apps.get(context.member.app).ok_or(Refusal::Errno(Errno::INVAL))?;
        let is_taken = |at: &Destination| context.claims.has(*at) || context.claims.has_alone(*at);
        if destinations.iter().any(is_taken) {
            return Err(FallbackReason::PortInUse.into());
        }
        let holder = Holder::of(examined);
        // Another socket may fit better, or this one may not be reached by our interfaces.
        let is_its = |at: &SocketAddr| {
            self.claimed.rights.gets(Transport::Udp, *at, holder).is_ok_and(|is_its| is_its)
        };
        let permitted: Vec<_> = permitted.into_iter().filter(is_its).collect();
        if permitted.is_empty() {
            return Err(FallbackReason::PortInUse.into());
        }
        let (port, sources) = (examined.local.port(), permitted.iter().map(SocketAddr::ip));
        let sources: Vec<IpAddr> = sources.collect();
        let uid = app.uid;
        let is_known = self.knows_connected_at(port, uid);
        // What the kernel does not tell may be so.
        if !is_known || self.claimed.connected.has_others(holder, uid, port, &sources) {
            return Err(FallbackReason::PortInUse.into());
        }
        let app = self.apps.get(context.member.app).ok_or(Refusal::Errno(Errno::INVAL))?;
        let to = permitted.iter().map(|at| destination(Protocol::Udp, *at));
        let destinations: Vec<_> = to.collect();
        if !self.has_room_for_addresses(app.uid, destinations.len(), context.claims) {
            return Err(FallbackReason::TooManySockets.into());
        }
        let payload_max = payload_max(self.table_config.mtu, examined.takes_v6);
        let datagrams = set_up(app, examined, remote, payload_max, sources)?;
        let slot = datagrams.slot;
        if let Some(words) = app.words(slot) {
            // What comes later is not among its sources, and its program's half is to know that.
            let is_any = datagrams.sources.len() == own_count;
            let version = if is_any { app.streams.server.memory().addresses_version() } else { 0 };
            words.sources_version.store(version, Ordering::Relaxed);
        }
        let generation = app.streams.server.generation(slot);
        let interfaces = self.network.neighbours.interfaces();
        self.table_config.command_queue.command(&Command::Interfaces(interfaces));
        self.table_config.command_queue.command(&Command::Bind(Arc::new(datagrams)));
        // Until then the kernel's socket takes what comes.
        self.table_config.await_workers();
        let claims = &mut *context.claims;
        let taken = destinations.into_iter().filter(|at| claims.add(*at).is_ok());
        let destinations = taken.collect();
        let what = What::Datagram(Bound { destinations, holder, is_told_to_close: false });
        let (number, region) = (app.number(), app.region());
        let (cookie, inode) = (examined.cookie, examined.inode);
        let record = Record { app: number, generation, cookie, inode, what };
        self.keep((region, slot), record);
        self.claimed.rights.watch((region, slot));
        Ok(Answer::slot((region, slot)))
    }

    /// What serves the kernel socket of this cookie for this application already. What the
    /// program has closed, because it connects the socket, gives it another peer or leaves it to
    /// the kernel, is waited for.
    pub(super) fn datagrams_of(
        &mut self,
        context: &mut Context<'_>,
        cookie: u64,
    ) -> Result<Option<SlotKey>, Refusal> {
        let number = context.member.app;
        let find = |table: &Self| {
            let mut named = table.records.named(cookie);
            let (place, record) = named.find(|(_, record)| record.app == number)?;
            let words = table.apps.get(number)?.words(place.1)?;
            let is_closing = words.asks().has(Asks::CLOSE | Asks::ABORT)
                && matches!(record.what, What::Datagram(_));
            Some((place, record.generation, is_closing))
        };
        let Some((place, _, true)) = find(self) else {
            return Ok(find(self).map(|(place, ..)| place));
        };
        let is_first = self.tell_to_close(place);
        self.hear_and_free(context);
        if is_first {
            self.await_ends(context, |table| find(table).is_some());
        }
        // What it has written has not left yet.
        if find(self).is_some() { Err(FallbackReason::DaemonBusy.into()) } else { Ok(None) }
    }

    /// Tells the worker of a socket for datagrams to close it, as its program wants: once. False:
    /// it was told before. What comes is the kernel's, or another socket's, from now on: only what
    /// it has written still has to leave.
    fn tell_to_close(&mut self, place: SlotKey) -> bool {
        let Some(record) = self.records.get_mut(place) else { return false };
        let (app, slot, generation) = (record.app, place.1, record.generation);
        match &mut record.what {
            What::Datagram(bound) if !bound.is_told_to_close => {
                bound.is_told_to_close = true;
                self.claimed.released.append(&mut bound.destinations);
            }
            _ => return false,
        }
        let close = Command::Close { app, slot, generation, is_abort: false };
        self.table_config.command_queue.command(&close);
        true
    }

    /// Hears what workers have ended, and gives back to the kernel what nobody here wants.
    fn hear_and_free(&mut self, context: &mut Context<'_>) {
        self.hear_workers(context.now);
        self.claimed.tend(context.now, context.claims, &mut self.descriptors);
    }

    /// Waits, not long, until workers have ended what their programs have closed.
    fn await_ends(&mut self, context: &mut Context<'_>, stays: impl Fn(&Self) -> bool) {
        let (uid, begun) = (context.member.uid, clock::now());
        let most = self.waiting.wait_budget.left(uid, begun).min(ENDED_WITHIN);
        loop {
            self.hear_and_free(context);
            let waited = clock::now().since(begun);
            if !stays(self) || waited >= most {
                return self.waiting.wait_budget.note(uid, waited);
            }
            std::thread::sleep(ENDED_EVERY);
        }
    }

    /// Whether a call has waited for workers since this was asked last.
    pub(crate) fn has_waited(&mut self) -> bool {
        self.waiting.wait_budget.has_waited()
    }

    /// Has the sockets that their programs have closed take no more packets for any of these.
    fn free_what_is_closed_at(&mut self, context: &mut Context<'_>, destinations: &[Destination]) {
        let is_closing = |(_, slot): &SlotKey, record: &Record| match &record.what {
            What::Datagram(bound) => {
                let words = self.apps.get(record.app).and_then(|app| app.words(*slot));
                bound.destinations.iter().any(|at| destinations.contains(at))
                    && words.is_some_and(|words| words.asks().has(Asks::CLOSE | Asks::ABORT))
            }
            _ => false,
        };
        let closing = self.records.iter().filter(|(place, record)| is_closing(place, record));
        let closing: Vec<SlotKey> = closing.map(|(place, _)| *place).collect();
        for place in closing {
            self.tell_to_close(place);
        }
        self.hear_and_free(context);
    }

    /// Datagrams wait for the next hop of an address.
    pub(super) fn resolve(&mut self, remote: IpAddr, whose: (u32, Cause), now: Nanos) {
        if let Some(answer) = self.seek(remote, whose, now) {
            self.table_config.command_queue.command(&answer);
        }
    }

    /// What workers are told about the next hop of an address now. None: nothing before it has
    /// answered.
    pub(super) fn seek(
        &mut self,
        remote: IpAddr,
        whose: (u32, Cause),
        now: Nanos,
    ) -> Option<Command> {
        let (_, cause) = whose;
        if self.waiting.has_datagrams_to(remote, cause) {
            return None;
        }
        let hop = match self.network.neighbours.find_within(remote, whose, now) {
            Some(Whither::Out(hop)) => hop,
            Some(_) => return Some(Command::Resolved { remote, next_hop: None }),
            None => return self.note_unasked(remote, cause),
        };
        // Before anything waits: strangers take up places for what is behind a router, too, and
        // that one is known.
        match self.network.neighbours.reach(&hop, whose, now) {
            Reach::Known(next_hop) => {
                let next_hop = Some((next_hop, hop.source));
                Some(Command::Resolved { remote, next_hop })
            }
            Reach::Unreachable => Some(Command::Resolved { remote, next_hop: None }),
            Reach::Asked | Reach::Unasked if !self.waiting.has_room(whose) => {
                self.note_unasked(remote, cause)
            }
            Reach::Asked | Reach::Unasked => {
                let until = now + REACH_MAX;
                let look_at = next_look(now, until);
                self.waiting.add_datagrams(Unresolved { remote, whose, hop, look_at, until });
                None
            }
        }
    }

    /// Nobody looks for a next hop: what workers are told of it. For an answer they have a way, and
    /// there may be as many of them as a stranger likes.
    fn note_unasked(&self, remote: IpAddr, cause: Cause) -> Option<Command> {
        self.table_config.counters.count(AttachServerEvent::NextHopShareUsedUp);
        (cause != Cause::Answer).then_some(Command::Unasked { remote })
    }

    /// Looks again for next hops of datagrams.
    pub(super) fn tend_unresolved(&mut self, now: Nanos) {
        for one in self.waiting.take_due_datagrams(now) {
            if let Some(answer) = self.look_again(one, now) {
                self.table_config.command_queue.command(&answer);
            }
        }
    }

    /// The same for one of them: what workers are told about it now.
    pub(super) fn look_again(&mut self, one: Unresolved, now: Nanos) -> Option<Command> {
        let remote = one.remote;
        let next_hop = match self.network.neighbours.reach(&one.hop, one.whose, now) {
            Reach::Known(next_hop) => Some((next_hop, one.hop.source)),
            Reach::Asked | Reach::Unasked if now < one.until => {
                let look_at = next_look(now, one.until);
                self.waiting.add_datagrams(Unresolved { look_at, ..one });
                return None;
            }
            Reach::Unasked => return self.note_unasked(remote, one.whose.1),
            Reach::Asked | Reach::Unreachable => None,
        };
        Some(Command::Resolved { remote, next_hop })
    }
}

/// Lends a slot and its rings.
fn set_up(
    app: &App,
    examined: &Examined,
    remote: Option<SocketAddr>,
    payload_max: usize,
    sources: Vec<IpAddr>,
) -> Result<Datagrams, Refusal> {
    let server = &app.streams.server;
    let slot = server.lend_slot().ok_or(FallbackReason::TooManySockets)?;
    let heap = server.heap();
    let wished = sockopt::socket_recv_buffer_size(&examined.socket).unwrap_or(0);
    let receive = heap.lend(receive_log2(wished)).or_else(|| heap.lend(RECEIVE_LOG2));
    let rings = match (receive, heap.lend(SEND_LOG2)) {
        (Some(receive), Some(send)) => (receive, send),
        (receive, send) => {
            receive.into_iter().chain(send).for_each(|ring| heap.take_back(ring));
            server.take_back_slot(slot);
            return Err(FallbackReason::NoMemory.into());
        }
    };
    if let Some(words) = app.words(slot) {
        words.local.set(Some(examined.local));
        words.remote.set(remote);
        words.cookie.store(examined.cookie, Ordering::Relaxed);
        examined.show_options(words);
        words.rx_ring.store(rings.0.desc().word(), Ordering::Relaxed);
        words.tx_ring.store(rings.1.desc().word(), Ordering::Relaxed);
        words.tx_ring_used.store(rings.1.desc().word(), Ordering::Relaxed);
        words.tx_log2_max.store(u32::from(SEND_LOG2_MAX), Ordering::Relaxed);
        words.payload_max.store(payload_max as u32, Ordering::Relaxed);
        words.state.store(Kind::Datagram as u32, Ordering::Release);
    }
    let (streams, local) = (Arc::clone(&app.streams), examined.local);
    let made = Datagrams::new(streams, slot, local, remote, payload_max, sources, rings);
    Ok(made.numbered_from(sys::random::bytes().map_or(0, u16::from_ne_bytes)))
}

/// The receive ring of a socket with that SO_RCVBUF, which is no more than the host's
/// net.core.rmem_max allows.
fn receive_log2(wished_bytes: usize) -> u8 {
    let log2 = wished_bytes.checked_next_power_of_two().map_or(u32::MAX, usize::trailing_zeros);
    let most = u32::from(RECEIVE_LOG2_MAX);
    log2.clamp(RECEIVE_LOG2.into(), most) as u8
}

/// The longest payload in a packet of `mtu` bytes.
fn payload_max(mtu: u16, is_v6: bool) -> usize {
    usize::from(mtu).saturating_sub(if is_v6 { 40 + 8 } else { 20 + 8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_longer_receive_buffer_gets_a_longer_ring_up_to_a_bound() {
        let log2 = [0, 212_992, 262_145, 425_984, 8 << 20, usize::MAX].map(receive_log2);
        assert_eq!(log2, [18, 18, 19, 19, 22, 22]);
    }
}
