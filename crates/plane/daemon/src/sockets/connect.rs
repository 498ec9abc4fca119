//! Connections that are opened here: the way, the address, the port and the right are settled
//! before a worker sends the first segment.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use attach::{FallbackReason, Reply};
use base::Nanos;
use config::Congestion;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use shm::sockets::{Kind, SlotState};
use stack::{Command, NextHop};
use sys::port_guard::PortGuard;
use sys::socket;
use sys::socket_owner::{self, Transport};
use tcp::FlowOptions;

use super::app::App;
use super::calls::{Answer, Context, Refusal};
use super::examine::Examined;
use super::guards::{Guard, Holds, SocketKey, flow};
use super::reach::{REACH_MAX, next_look};
use super::records::{Record, What};
use super::routes::{Hop, Reach, UNREACHABLE, Whither};
use super::shares::Shares;
use super::table::SocketTable;
use super::table_config::SocketTableConfig;
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent;
use crate::engine::algorithm;

/// A connection whose first segment cannot leave yet.
pub(super) struct Pending {
    pub(super) app: u16,
    slot: u32,
    generation: u32,
    local: SocketAddr,
    remote: SocketAddr,
    options: FlowOptions,
    hop: Hop,
    look_at: Nanos,
    until: Nanos,
}

impl Pending {
    pub(super) fn look_at(&self) -> Nanos {
        self.look_at
    }

    pub(super) fn key(&self) -> SocketKey {
        (self.app, self.slot, self.generation)
    }
}

impl SocketTableConfig {
    /// Settings of a flow of this application.
    pub(super) fn flow_of(&self, app: &App) -> FlowOptions {
        let congestion = app.tenant.congestion();
        let ecn = congestion == Congestion::Dctcp;
        FlowOptions { congestion: algorithm(congestion), ecn, ..self.flow }
    }

    /// The same for a socket on which the program has chosen its congestion control.
    fn flow_of_socket(&self, app: &App, examined: &Examined) -> FlowOptions {
        let chosen = app.tenant.congestion.iter().find(|one| one.name() == examined.congestion);
        let flow = self.flow_of(app);
        match chosen {
            // What a host gives to sockets that have not chosen says nothing.
            Some(chosen) if examined.congestion != "cubic" => FlowOptions {
                congestion: algorithm(*chosen),
                ecn: *chosen == Congestion::Dctcp,
                ..flow
            },
            _ => flow,
        }
    }
}

impl SocketTable {
    /// Opens a connection to `remote` for a kernel socket that is bound or not.
    pub(super) fn connect(
        &mut self,
        context: &mut Context<'_>,
        socket: OwnedFd,
        remote: SocketAddr,
    ) -> Result<(Answer, OwnedFd), (Refusal, OwnedFd)> {
        let examined = match Examined::new(socket, wire::Protocol::Tcp, self.namespace) {
            Ok(examined) => examined,
            Err((reason, socket)) => return Err((reason.into(), socket)),
        };
        match self.connect_to(context, &examined, socket::canonical(remote)) {
            Ok(answer) => Ok((answer, examined.socket)),
            Err(refusal) => Err((refusal, examined.socket)),
        }
    }

    fn connect_to(
        &mut self,
        context: &mut Context<'_>,
        examined: &Examined,
        remote: SocketAddr,
    ) -> Result<Answer, Refusal> {
        // Whoever listens cannot connect: the kernel says so to who tries.
        if sockopt::socket_acceptconn(&examined.socket).unwrap_or(true) {
            return Err(FallbackReason::WrongState.into());
        }
        let takes = if remote.is_ipv4() { examined.takes_v4 } else { examined.takes_v6 };
        if !takes || remote.port() == 0 || remote.ip().is_unspecified() {
            // The kernel says best what is wrong with that.
            return Err(FallbackReason::NoRouteHere.into());
        }
        let source = (!examined.is_wildcard()).then_some(examined.local.ip());
        let hop = match self.neighbours.find(remote.ip(), source) {
            Whither::Out(hop) => hop,
            Whither::Local { source } => {
                return self.connect_within(context, examined, remote, source);
            }
            Whither::Many { is_broadcast: true } => return Err(FallbackReason::Broadcast.into()),
            Whither::Many { is_broadcast: false } => return Err(FallbackReason::Multicast.into()),
            Whither::Elsewhere => return Err(FallbackReason::NoRouteHere.into()),
        };
        if self.firewall.forbids(context.now) {
            return Err(FallbackReason::FirewallRules.into());
        }
        let app = self.apps.get(&context.member.app).ok_or(Refusal::Errno(Errno::INVAL))?;
        if !app.tenant.may_connect(remote) {
            return Err(Refusal::denied(app.tenant.denied));
        }
        let slot = app.streams.server.lend_slot().ok_or(FallbackReason::TooManySockets)?;
        let uid = app.uid;
        let Self { holds, descriptors, .. } = self;
        let room = holds.make_room(uid, context.claims, descriptors).map_err(Taken::Share);
        let own =
            room.and_then(|()| Own::take(examined, hop.source, remote, uid, holds, descriptors));
        let interface = hop.link.interface;
        let own =
            own.and_then(|own| match own.claim(examined, remote, interface, context.claims) {
                Ok(()) => Ok(own),
                Err(taken) => {
                    own.guard.map(|guard| guard.give_up(descriptors));
                    Err(taken)
                }
            });
        let Own { local, is_automatic, guard } = match own {
            Ok(own) => own,
            Err(taken) => {
                app.streams.server.take_back_slot(slot);
                if let Taken::Share(of) = taken {
                    self.table_config.counters.count(of);
                }
                return Err(taken.into());
            }
        };
        let mut options = self.table_config.flow_of_socket(app, examined);
        options.mss_max = hop.mtu.map(|mtu| mss(mtu, remote.ip()));
        let generation = prepare(app, slot, examined.cookie, local, remote);
        let (number, region) = (app.number(), app.region());
        let key = (number, slot, generation);
        self.holds.add(key, uid, (local, remote), is_automatic, guard);
        let (cookie, inode) = (examined.cookie, examined.inode);
        let what = What::Unsent;
        let record = Record { app: number, generation, cookie, inode, what };
        self.records.insert((region, slot), record);
        let until = context.now + REACH_MAX;
        let look_at = context.now;
        let pending =
            Pending { app: number, slot, generation, local, remote, options, hop, look_at, until };
        if let Some(pending) = self.try_to_open(pending, context.now) {
            self.pending.push(pending);
        }
        Ok(Answer::new(Reply::Slot { region, slot }))
    }

    /// Tells workers when the next hop's link address is known; gives the rest back.
    fn try_to_open(&mut self, pending: Pending, now: Nanos) -> Option<Pending> {
        let uid = self.apps.get(&pending.app).map(|app| app.uid);
        match self.neighbours.reach(&pending.hop, uid, now) {
            Reach::Known(next_hop) => self.open(&pending, next_hop),
            Reach::Asked if now < pending.until => {
                return Some(Pending { look_at: next_look(now, pending.until), ..pending });
            }
            Reach::Asked | Reach::Unreachable => {
                self.holds.finish(pending.key(), now);
                if let Some(app) = self.apps.get(&pending.app) {
                    app.fail(pending.slot, UNREACHABLE);
                }
            }
        }
        None
    }

    fn open(&mut self, pending: &Pending, next_hop: NextHop) {
        let Pending { app, slot, local, remote, options, .. } = *pending;
        let Some(region) = self.apps.get(&app).map(App::region) else { return };
        if let Some(record) = self.records.get_mut((region, slot)) {
            record.what = What::Stream;
        }
        self.table_config.command_queue.command(&Command::Connect {
            app,
            slot,
            local,
            remote,
            options,
            next_hop,
        });
    }

    /// Looks again at connections whose first segment cannot leave yet.
    pub(super) fn tend_pending(&mut self, now: Nanos) {
        for pending in std::mem::take(&mut self.pending) {
            let left = match pending.look_at > now {
                true => Some(pending),
                false => self.try_to_open(pending, now),
            };
            self.pending.extend(left);
        }
    }

    /// A connection that no worker has heard of is closed.
    pub(super) fn drop_unsent(&mut self, place: super::names::SlotKey, now: Nanos) {
        let Some(record) = self.records.remove(place) else { return };
        let key = (record.app, place.1, record.generation);
        self.pending.retain(|pending| pending.key() != key);
        self.holds.finish(key, now);
        if let Some(app) = self.apps.get(&record.app) {
            app.streams.server.take_back_slot(place.1);
        }
    }
}

/// A connection's own address, guarded in the kernel.
struct Own {
    local: SocketAddr,
    /// The program has not chosen the port.
    is_automatic: bool,
    guard: Option<Guard>,
}

/// Why a connection gets no address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// Its user has as many as it may.
    Share(AttachServerEvent),
    Refused(Refusal),
}

impl From<AttachServerEvent> for Taken {
    fn from(share: AttachServerEvent) -> Self {
        Self::Share(share)
    }
}

impl From<Refusal> for Taken {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Taken> for Refusal {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Share(_) => FallbackReason::TooManySockets.into(),
            Taken::Refused(refusal) => refusal,
        }
    }
}

impl Own {
    /// From `source`, at the port that the socket is bound to; at one that the kernel chooses, and
    /// binds it to, if there is none.
    fn take(
        examined: &Examined,
        source: IpAddr,
        remote: SocketAddr,
        uid: u32,
        holds: &Holds,
        descriptors: &mut Shares,
    ) -> Result<Self, Taken> {
        let fd = examined.socket.as_fd();
        let bound = SocketAddr::new(source, examined.local.port());
        let mut guard_of = |local| match holds.guard_of(local) {
            Some(guard) => Ok(Some(guard)),
            // Without one the port is the program's own for as long as it has the socket, and no
            // longer.
            None => Guard::new(uid, descriptors, || PortGuard::beside(fd)).map(Result::ok),
        };
        if bound.port() == 0 {
            let port = bind_anew(fd, source)?.port();
            let local = SocketAddr::new(source, port);
            Ok(Self { local, is_automatic: true, guard: guard_of(local)? })
        } else if holds.has_chosen((bound, remote)) {
            // It was connected there before, and that connection may not be over yet: the next one
            // has another port, as Linux gives it when a socket is connected again (connect(2):
            // AF_UNSPEC).
            Self::beside_the_socket(source, uid, descriptors)
        } else {
            Ok(Self { local: bound, is_automatic: false, guard: guard_of(bound)? })
        }
    }

    /// A port that the program's own socket is not bound to: nothing but the guard has it.
    fn beside_the_socket(
        source: IpAddr,
        uid: u32,
        descriptors: &mut Shares,
    ) -> Result<Self, Taken> {
        let family = if source.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let spare = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let spare = spare.map_err(Refusal::Errno)?;
        let port = bind_anew(spare.as_fd(), source)?.port();
        let guard = Guard::new(uid, descriptors, || PortGuard::beside(spare.as_fd()))?;
        let guard = guard.map_err(|error| Refusal::Errno(error.errno()))?;
        Ok(Self { local: SocketAddr::new(source, port), is_automatic: true, guard: Some(guard) })
    }

    /// Takes what the peer sends from the kernel, and nothing that others send to the port: that
    /// may be another's listener.
    fn claim(
        &self,
        examined: &Examined,
        remote: SocketAddr,
        interface: u32,
        claims: &mut Claims,
    ) -> Result<(), Taken> {
        // The kernel opens no second connection of one name, whoever asks; nor do we beside one of
        // its.
        let owner = socket_owner::of_ends(Transport::Tcp, self.local, remote, interface)
            .map_err(|_| Refusal::Kernel(FallbackReason::DaemonBusy))?;
        let is_free =
            owner.is_none_or(|owner| owner.is_listener || owner.cookie == examined.cookie);
        if !is_free {
            return Err(Refusal::Errno(Errno::ADDRNOTAVAIL).into());
        }
        let claimed = claims.add_flow(flow((self.local, remote)));
        claimed.map_err(|_| Refusal::Kernel(FallbackReason::NoMemory).into())
    }
}

fn bind_anew(fd: BorrowedFd<'_>, source: IpAddr) -> Result<SocketAddr, Refusal> {
    socket::bind(fd, SocketAddr::new(source, 0)).map_err(|error| Refusal::Errno(error.errno()))
}

/// Writes what the application may know from the start; the slot's generation.
fn prepare(app: &App, slot: u32, cookie: u64, local: SocketAddr, remote: SocketAddr) -> u32 {
    let Some(words) = app.words(slot) else { return 0 };
    words.local.set(Some(local));
    words.remote.set(Some(remote));
    words.cookie.store(cookie, Ordering::Relaxed);
    words.state.store(Kind::Stream as u32 | SlotState::CONNECTING, Ordering::Release);
    app.streams.server.generation(slot)
}

/// The largest payload of a segment in packets of `mtu` bytes.
fn mss(mtu: u32, remote: IpAddr) -> u16 {
    let headers = if remote.is_ipv4() { 20 + 20 } else { 40 + 20 };
    u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::examine;
    use super::*;

    #[test]
    fn who_is_connected_again_gets_another_port_unless_it_has_chosen_its_own() {
        let made = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let namespace = examine::own_namespace().expect("sockets can be made");
        let look = |socket| Examined::new(socket, wire::Protocol::Tcp, namespace);
        let examined = look(made.expect("descriptors are left")).map_err(|(why, _)| why);
        let examined = examined.expect("TCP, here, not connected");
        let source = IpAddr::from([127, 0, 0, 1]);
        let remote = SocketAddr::from(([10, 0, 0, 1], 80));
        let (mut holds, mut shares) = (Holds::default(), Shares::new(100));
        let mut take = |examined: &Examined, holds: &Holds| {
            Own::take(examined, source, remote, 5, holds, &mut shares).expect("ports are left")
        };
        let first = take(&examined, &holds);
        assert!(first.is_automatic && first.guard.is_some());
        let bound = socket::local_address(examined.socket.as_fd()).expect("it is a socket");
        assert_eq!(first.local, bound, "the kernel's socket has the port too");
        let again = look(examined.socket).map_err(|(why, _)| why).expect("still not connected");
        holds.add((1, 0, 1), 5, (first.local, remote), first.is_automatic, first.guard);
        let second = take(&again, &holds);
        assert!(second.local != first.local && second.is_automatic && second.guard.is_some());
        let mut holds = Holds::default();
        holds.add((1, 0, 1), 5, (first.local, remote), false, None);
        assert_eq!(take(&again, &holds).local, first.local, "that was its own choice");
    }
}
