//! Listeners: a kernel listener goes on for the kernel's interfaces, and workers listen for ours.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use attach::FallbackReason;
use base::{AppId, Nanos, SlotId};
use port::xdp::Protocol;
use rustix::io::Errno;
use rustix::net::sockopt;
use shm::sockets::{Backlog, Kind, SlotState};
use stack::{Command, Listening};
use sys::socket_owner::Transport;
use tcp::FlowOptions;

use super::super::answer::{Answer, Context, Refusal};
use super::super::app::App;
use super::super::aside::Passed;
use super::super::beside_kernel::BesideKernel;
use super::super::examine::{Examined, covers};
use super::super::guards::destination;
use super::super::names::SlotKey;
use super::super::proofs::Ids;
use super::super::records::{Listener, Record, What};
use super::super::rights::Holder;
use super::SocketTable;
use crate::apps::Claims;

/// Connections that may wait to be accepted, at most, whatever is asked for (`somaxconn` on most
/// hosts).
const BACKLOG_MAX: u32 = 4096;

impl SocketTable {
    /// Serves the port that a kernel socket listens on, on our interfaces and for programs here. A
    /// socket that is bound and does not listen yet begins to in the same moment: so nobody comes
    /// to the kernel's listener in between.
    pub(super) fn listen(
        &mut self,
        context: &mut Context<'_>,
        socket: &Passed,
        backlog: u32,
    ) -> Result<Answer, Refusal> {
        let examined = self.examine(context, socket, wire::Protocol::Tcp)?;
        self.listen_at(context, &examined, backlog)
    }

    fn listen_at(
        &mut self,
        context: &mut Context<'_>,
        examined: &Examined,
        backlog: u32,
    ) -> Result<Answer, Refusal> {
        let number = context.member.app;
        let mut named = self.records.named(examined.cookie);
        let is_own = |(_, record): &(SlotKey, &Record)| {
            record.app == number && matches!(record.what, What::Listener(_))
        };
        if let Some(((region, slot), _)) = named.find(is_own) {
            // Listening again changes the backlog, which is as long as it was.
            return Ok(Answer::slot((region, slot)));
        }
        drop(named);
        if let Some((region, slot)) = self.listener_of_others(context, examined.cookie) {
            // Processes that share it bring it one after another: the first one's has all callers.
            context.member.may_map.insert(region);
            return Ok(Answer::slot((region, slot)));
        }
        if examined.local.port() == 0 {
            return Err(FallbackReason::WrongState.into());
        }
        if let Some(why) = self.network.guarded(context.member.pid, context.now) {
            return Err(why.into());
        }
        let app = self.apps.get(number).ok_or(Refusal::Errno(Errno::INVAL))?;
        let addresses = permitted(app, examined, self.network.neighbours.addresses())?;
        if !self.has_room_for_addresses(app.uid, addresses.len(), context.claims) {
            return Err(FallbackReason::TooManySockets.into());
        }
        let replaced = self.replaced(app, examined, &addresses);
        if !replaced.is_empty() {
            // Before anything of those ends.
            self.begin_to_listen(context, examined, backlog)?;
        }
        for place in replaced {
            self.end_listener(place, context.now);
        }
        check_free(&addresses, context)?;
        let app = self.apps.get(number).ok_or(Refusal::Errno(Errno::INVAL))?;
        let listener = set_up(app, examined, addresses, backlog)?;
        let (region, slot) = (app.region(), listener.0);
        let generation = app.streams.server.generation(slot);
        let record = Record {
            app: number,
            generation,
            cookie: examined.cookie,
            inode: examined.inode,
            what: What::Listener(listener.1),
        };
        let number = record.app;
        self.keep((region, slot), record);
        self.note_low_ports(number);
        self.tell_workers((region, slot));
        // Now or never: no packet was taken from anybody so far, and from here on callers are ours.
        if let Err(refusal) = self.begin_to_listen(context, examined, backlog) {
            self.end_unclaimed((region, slot), context.now);
            return Err(refusal);
        }
        if !self.keep_rightful((region, slot)) {
            self.end_unclaimed((region, slot), context.now);
            return Err(FallbackReason::PortInUse.into());
        }
        self.claim((region, slot), context);
        self.claimed.rights.watch((region, slot));
        Ok(Answer::slot((region, slot)))
    }

    /// Has a socket listen that is only bound yet. Sockets of different users may be bound to one
    /// port as long as none listens, so that being bound is no right to it: the kernel says whose
    /// it is, and once it has said so nobody else gets the port.
    fn begin_to_listen(
        &mut self,
        context: &Context<'_>,
        examined: &Examined,
        backlog: u32,
    ) -> Result<(), Refusal> {
        // It takes no lock to ask that.
        if sockopt::socket_acceptconn(&examined.socket).unwrap_or(false) {
            return Ok(());
        }
        let backlog = backlog.min(BACKLOG_MAX) as i32;
        let socket = Passed::clone(&examined.socket);
        let listen = move || rustix::net::listen(socket.as_fd(), backlog);
        let listens = self.ask_aside(context.member.uid, listen);
        listens.ok_or(FallbackReason::DaemonBusy)?.map_err(Refusal::Errno)
    }

    /// The listener of that socket, if another application of the same user and group has brought
    /// it, and the process may have what [`Self::adopt`] gives.
    fn listener_of_others(&self, context: &Context<'_>, cookie: u64) -> Option<SlotKey> {
        let who = context.member.who;
        let ids = Ids::of_process(who.pid);
        let mut named = self.records.named(cookie);
        let is_such = |(_, record): &(SlotKey, &Record)| {
            matches!(record.what, What::Listener(_))
                && self.apps.get(record.app).is_some_and(|app| app.proofs.is_same(who, ids))
        };
        named.find(is_such).map(|(place, _)| place)
    }

    /// Listeners that had the port and are closed, though that was not heard of yet: the kernel
    /// gives a port to nobody else before, but to those that share it.
    fn replaced(&self, app: &App, examined: &Examined, addresses: &[SocketAddr]) -> Vec<SlotKey> {
        let others = self.records.listeners().filter(|(_, record, other)| {
            let may_share = other.shares_port
                && examined.shares_port
                && self.apps.get(record.app).is_some_and(|other| other.uid == app.uid);
            other.local.port() == examined.local.port()
                && (other.local == examined.local
                    || other.addresses.iter().any(|address| addresses.contains(address)))
                && !may_share
        });
        others.map(|(place, ..)| place).collect()
    }

    /// Has workers listen, and waits until they do.
    fn tell_workers(&mut self, place: SlotKey) {
        let Some(record) = self.records.get(place) else { return };
        let What::Listener(listener) = &record.what else { return };
        let Some(app) = self.apps.get(record.app) else { return };
        let options = self.table_config.flow_of(app);
        for &address in &listener.addresses {
            self.table_config
                .command_queue
                .command(&listening(app, place.1, listener, address, options));
        }
        self.table_config.await_workers();
    }

    /// Leaves of a listener's addresses those whose callers the kernel gives to its socket. False:
    /// there is none.
    fn keep_rightful(&mut self, place: SlotKey) -> bool {
        let Some(record) = self.records.get_mut(place) else { return false };
        let What::Listener(listener) = &mut record.what else { return false };
        let Listener { addresses, holder, .. } = listener;
        let had_none = addresses.is_empty();
        let gets = |at: &SocketAddr| self.claimed.rights.gets(Transport::Tcp, *at, *holder);
        addresses.retain(|address| gets(address).is_ok_and(|is_its| is_its));
        had_none || !addresses.is_empty()
    }

    /// Takes the addresses of a listener from the kernel. Until then its own listener takes who
    /// comes.
    fn claim(&mut self, place: SlotKey, context: &mut Context<'_>) {
        let Some(record) = self.records.get_mut(place) else { return };
        let What::Listener(listener) = &mut record.what else { return };
        let claims = &mut *context.claims;
        // What the program cannot be told stays the kernel's.
        let beside_kernel = &mut self.claimed.beside_kernel;
        listener.addresses.retain(|address| take(*address, claims, beside_kernel));
    }

    /// Our addresses have changed: listeners on all of them follow.
    pub(super) fn follow_addresses(&mut self, claims: &mut Claims) {
        let own = self.network.neighbours.addresses().to_vec();
        let places: Vec<SlotKey> = self.records.listeners().map(|(place, ..)| place).collect();
        for place in places {
            let Some(record) = self.records.get_mut(place) else { continue };
            let What::Listener(listener) = &mut record.what else { continue };
            let Some(app) = self.apps.get(record.app) else { continue };
            let wanted = reachable(app, listener.local, listener.takes, &own);
            let old = std::mem::take(&mut listener.addresses);
            for address in old {
                match wanted.contains(&address) {
                    true => listener.addresses.push(address),
                    // Workers listen on, but no packet comes.
                    false => claims.remove(destination(Protocol::Tcp, address)),
                }
            }
            let options = self.table_config.flow_of(app);
            let new = |address: &SocketAddr| {
                let is_its = self.claimed.rights.gets(Transport::Tcp, *address, listener.holder);
                !listener.addresses.contains(address)
                    && !claims.has_alone(destination(Protocol::Tcp, *address))
                    && is_its.is_ok_and(|is_its| is_its)
            };
            let new: Vec<SocketAddr> = wanted.into_iter().filter(new).collect();
            for &address in &new {
                self.table_config
                    .command_queue
                    .command(&listening(app, place.1, listener, address, options));
            }
            self.table_config.await_workers();
            let beside_kernel = &mut self.claimed.beside_kernel;
            let taken = new.into_iter().filter(|at| take(*at, claims, beside_kernel));
            listener.addresses.extend(taken);
        }
    }

    pub(super) fn unlisten(&mut self, context: &mut Context<'_>, place: SlotKey) -> Answer {
        let own = self.records.get(place).filter(|record| {
            record.app == context.member.app && matches!(record.what, What::Listener(_))
        });
        if own.is_none() {
            return Answer::errno(Errno::INVAL);
        }
        self.end_listener(place, context.now);
        Answer::done()
    }

    /// The same for one that has taken no address from the kernel yet.
    fn end_unclaimed(&mut self, place: SlotKey, now: Nanos) {
        if let Some(Record { what: What::Listener(listener), .. }) = self.records.get_mut(place) {
            listener.addresses.clear();
        }
        self.end_listener(place, now);
    }

    /// A listener ends; the connections that nobody has taken end with it.
    pub(super) fn end_listener(&mut self, place: SlotKey, now: Nanos) {
        let Some(record) = self.records.remove(place) else { return };
        let What::Listener(listener) = record.what else { return };
        let Some(app) = self.apps.get(record.app) else { return };
        if let Some(words) = app.words(place.1) {
            let state = Kind::Listener as u32 | SlotState::FINISHED;
            words.state.store(state, Ordering::Release);
            app.tell(place.1);
        }
        self.table_config
            .command_queue
            .command(&Command::Unlisten { app: record.app, slot: place.1 });
        let (streams, uid) = (Arc::clone(&app.streams), app.uid);
        self.note_low_ports(record.app);
        self.linger(&streams, uid, place.1, listener, now);
    }

    /// Writes down at which ports below 1024 an application listens: who goes on with connections
    /// when this process is dead gives it sockets at these.
    fn note_low_ports(&self, number: AppId) {
        let Some(app) = self.apps.get(number) else { return };
        let Some(records) = &app.streams.records else { return };
        let ports = self.records.of_region(app.region()).filter_map(|(_, record)| {
            let What::Listener(listener) = &record.what else { return None };
            Some(listener.local.port()).filter(|port| *port < 1024)
        });
        records.table().set_low_ports(ports);
    }
}

/// Takes an address from the kernel, but for the connections that it has there. False: the
/// interfaces' programs cannot be told.
fn take(address: SocketAddr, claims: &mut Claims, beside_kernel: &mut BesideKernel) -> bool {
    let destination = destination(Protocol::Tcp, address);
    let is_new = !claims.has(destination);
    let is_taken = claims.add_beside_kernel(destination).is_ok();
    if is_new && is_taken {
        beside_kernel.watch(destination);
    }
    is_taken
}

/// An application in packet mode, or the own workers, may have one of the addresses for themselves.
fn check_free(addresses: &[SocketAddr], context: &Context<'_>) -> Result<(), Refusal> {
    let mut all = addresses.iter().map(|address| destination(Protocol::Tcp, *address));
    let is_taken = all.any(|at| context.claims.has_alone(at));
    if is_taken { Err(FallbackReason::PortInUse.into()) } else { Ok(()) }
}

/// The command that has workers listen at one of a listener's addresses.
fn listening(
    app: &App,
    slot: SlotId,
    listener: &Listener,
    address: SocketAddr,
    options: FlowOptions,
) -> Command {
    Command::Listen(Arc::new(Listening {
        app: Arc::clone(&app.streams),
        slot,
        address,
        backlog: Arc::clone(&listener.backlog),
        half_open_max: listener.backlog_max,
        options,
    }))
}

/// The addresses of ours at which a listener is reached, as far as its tenant may listen there.
fn reachable(app: &App, local: SocketAddr, takes: (bool, bool), own: &[IpAddr]) -> Vec<SocketAddr> {
    let own = own.iter().filter(|ip| covers(local.ip(), takes, **ip));
    let all = own.map(|ip| SocketAddr::new(*ip, local.port()));
    all.filter(|address| app.tenant.may_listen(app.uid, *address)).collect()
}

/// The same, or why there is none.
fn permitted(app: &App, examined: &Examined, own: &[IpAddr]) -> Result<Vec<SocketAddr>, Refusal> {
    let takes = (examined.takes_v4, examined.takes_v6);
    let addresses = reachable(app, examined.local, takes, own);
    // Programs on this host may reach it where nobody else does.
    let may_be_local = match examined.is_wildcard() {
        true => [IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()]
            .into_iter()
            .any(|ip| app.tenant.may_listen(app.uid, SocketAddr::new(ip, examined.local.port()))),
        false => app.tenant.may_listen(app.uid, examined.local),
    };
    if addresses.is_empty() && !may_be_local {
        return Err(Refusal::denied(app.tenant.denied));
    }
    Ok(addresses)
}

/// Lends a slot and a ring for connections that wait.
fn set_up(
    app: &App,
    examined: &Examined,
    addresses: Vec<SocketAddr>,
    backlog: u32,
) -> Result<(SlotId, Listener), Refusal> {
    let server = &app.streams.server;
    let backlog_max = backlog.clamp(1, BACKLOG_MAX);
    let bytes = u64::from(backlog_max).next_power_of_two() * 8;
    let slot = server.lend_slot().ok_or(FallbackReason::TooManySockets)?;
    let Some(mut ring) = server.heap().lend(bytes.trailing_zeros().max(10) as u8) else {
        server.take_back_slot(slot);
        return Err(FallbackReason::NoMemory.into());
    };
    // Whoever had the ring before left other things there.
    ring.piece().clear();
    if let Some(words) = app.words(slot) {
        words.local.set(Some(examined.local));
        words.cookie.store(examined.cookie, Ordering::Relaxed);
        examined.show_options(words);
        words.rx_ring.store(ring.desc().word(), Ordering::Release);
        words.state.store(Kind::Listener as u32, Ordering::Release);
    }
    let listener = Listener {
        local: examined.local,
        takes: (examined.takes_v4, examined.takes_v6),
        addresses,
        backlog: Arc::new(Backlog::new(ring, backlog_max)),
        backlog_max,
        shares_port: examined.shares_port,
        holder: Holder::of(examined),
    };
    Ok((slot, listener))
}
