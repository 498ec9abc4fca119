//! Connections that are opened here: the way, the address, the port and the right are settled before a
//! worker sends the first segment.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use attach::{FallbackReason, Reply};
use base::Nanos;
use config::Congestion;
use datapath::stream::{Command, Way};
use port::xdp::Protocol;
use rustix::io::Errno;
use shm::stream::{Kind, SlotState};
use sys::port_guard::PortGuard;
use sys::socket;
use tcp::FlowOptions;

use super::app::App;
use super::calls::{Answer, Context, Refusal};
use super::examine::Examined;
use super::guards::{SocketKey, destination};
use super::house::{House, Setting};
use super::records::{Record, What};
use super::routes::{Hop, Reach, UNREACHABLE, Whither};
use crate::engine::algorithm;

/// So long a next hop may take to say its link address.
const REACH_MAX: Nanos = Nanos::from_secs(3);

/// Time between two looks whether it has.
const REACH_EVERY: Nanos = Nanos::from_millis(20);

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

impl Setting {
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

impl House {
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
        let takes = if remote.is_ipv4() { examined.takes_v4 } else { examined.takes_v6 };
        if !takes || remote.port() == 0 || remote.ip().is_unspecified() {
            // The kernel says best what is wrong with that.
            return Err(FallbackReason::NoRouteHere.into());
        }
        let source = (!examined.is_wildcard()).then_some(examined.local.ip());
        let hop = match self.ways.find(remote.ip(), source) {
            Whither::Out(hop) => hop,
            Whither::Local { source } => {
                return self.connect_within(context, examined, remote, source);
            }
            Whither::Many { is_broadcast: true } => return Err(FallbackReason::Broadcast.into()),
            Whither::Many { is_broadcast: false } => return Err(FallbackReason::Multicast.into()),
            Whither::Elsewhere => return Err(FallbackReason::NoRouteHere.into()),
        };
        if !self.setting.config.sockets.ignore_firewall && self.firewall.has_rules(context.now) {
            return Err(FallbackReason::FirewallRules.into());
        }
        let app = self.apps.get(&context.member.app).ok_or(Refusal::Errno(Errno::INVAL))?;
        if !app.tenant.may_connect(remote) {
            return Err(Refusal::denied(app.tenant.denied));
        }
        let slot = app.streams.server.lend_slot().ok_or(FallbackReason::TooManySockets)?;
        let opened = take_address(examined, hop.source, context).inspect_err(|_| {
            app.streams.server.take_back_slot(slot);
        });
        let (local, guard) = opened?;
        let mut options = self.setting.flow_of_socket(app, examined);
        options.mss_max = hop.mtu.map(|mtu| mss(mtu, remote.ip()));
        let generation = prepare(app, slot, examined.cookie, local, remote);
        let (number, region) = (app.number(), app.region());
        let key = (number, slot, generation);
        self.holds.add(key, destination(Protocol::Tcp, local), guard);
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
        match self.ways.reach(&pending.hop, now) {
            Reach::Known(way) => self.open(&pending, way),
            Reach::Asked if now < pending.until => {
                return Some(Pending { look_at: now + REACH_EVERY, ..pending });
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

    fn open(&mut self, pending: &Pending, way: Way) {
        let Pending { app, slot, local, remote, options, .. } = *pending;
        let Some(region) = self.apps.get(&app).map(App::region) else { return };
        if let Some(record) = self.records.get_mut((region, slot)) {
            record.what = What::Stream;
        }
        self.setting.front.command(&Command::Connect { app, slot, local, remote, options, way });
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
    pub(super) fn drop_unsent(&mut self, place: super::names::Place, now: Nanos) {
        let Some(record) = self.records.remove(place) else { return };
        let key = (record.app, place.1, record.generation);
        self.pending.retain(|pending| pending.key() != key);
        self.holds.finish(key, now);
        if let Some(app) = self.apps.get(&record.app) {
            app.streams.server.take_back_slot(place.1);
        }
    }
}

/// The connection's own address, bound in the kernel too, guarded there and taken from it.
fn take_address(
    examined: &Examined,
    source: IpAddr,
    context: &mut Context<'_>,
) -> Result<(SocketAddr, Option<PortGuard>), Refusal> {
    let fd = examined.socket.as_fd();
    let port = match examined.local.port() {
        0 => socket::bind(fd, SocketAddr::new(source, 0))
            .map_err(|error| Refusal::Errno(error.errno()))?
            .port(),
        port => port,
    };
    let local = SocketAddr::new(source, port);
    // Without one the port is the program's own for as long as it has the socket, and no longer.
    let guard = PortGuard::beside(fd).ok();
    let claimed = context.claims.add(destination(Protocol::Tcp, local));
    claimed.map_err(|_| Refusal::Kernel(FallbackReason::NoMemory))?;
    Ok((local, guard))
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
