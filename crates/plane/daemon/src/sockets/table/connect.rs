//! Connections that are opened here: the way, the address, the port and the right are settled
//! before a worker sends the first segment.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::atomic::Ordering;

use attach::FallbackReason;
use base::{Generation, Nanos, SlotId};
use config::Congestion;
use rustix::io::Errno;
use rustix::net::sockopt;
use shm::sockets::{Kind, SlotState};
use stack::{Command, NextHop};
use sys::socket;
use tcp::FlowOptions;

use super::super::answer::{Answer, Context, Refusal};
use super::super::app::App;
use super::super::aside::Passed;
use super::super::asking::Asking;
use super::super::claimed::Claimed;
use super::super::examine::Examined;
use super::super::names::SlotKey;
use super::super::own_address::{OwnAddress, Taken, Who};
use super::super::reach::{Cause, REACH_MAX, next_look};
use super::super::records::{Record, What};
use super::super::routes::{Reach, UNREACHABLE, Whither};
use super::super::table_config::SocketTableConfig;
use super::super::waiting::Pending;
use super::SocketTable;
use crate::attach_server_counters::AttachServerEvent;
use crate::engine::algorithm;

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
        socket: &Passed,
        remote: SocketAddr,
    ) -> Result<Answer, Refusal> {
        let examined = self.examine(context, socket, wire::Protocol::Tcp)?;
        self.connect_to(context, &examined, socket::canonical(remote))
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
        if is_link_local(remote.ip()) {
            // Such an address says nothing without its interface, which our tables do not have.
            return Err(FallbackReason::NoRouteHere.into());
        }
        let source = (!examined.is_wildcard()).then_some(examined.local.ip());
        let hop = match self.network.neighbours.find(remote.ip(), source) {
            Whither::Out(hop) => hop,
            Whither::Local { source } => {
                return self.connect_within(context, examined, remote, source);
            }
            Whither::Many { is_broadcast: true } => return Err(FallbackReason::Broadcast.into()),
            Whither::Many { is_broadcast: false } => return Err(FallbackReason::Multicast.into()),
            Whither::Elsewhere => return Err(FallbackReason::NoRouteHere.into()),
        };
        if let Some(why) = self.network.guarded(context.member.pid, context.now) {
            return Err(why.into());
        }
        let app = self.apps.get(context.member.app).ok_or(Refusal::Errno(Errno::INVAL))?;
        if !app.tenant.may_connect(remote) {
            return Err(Refusal::denied(app.tenant.denied));
        }
        let slot = app.streams.server.lend_slot().ok_or(FallbackReason::TooManySockets)?;
        let (uid, payer) = (app.uid, app.payer());
        let Self { claimed: Claimed { holds, .. }, descriptors, threads, waiting, .. } = self;
        let early = holds.make_way(payer, context.claims, descriptors);
        self.table_config.counters.add(AttachServerEvent::NamesGivenEarly, early as u64);
        let room = holds.make_room(uid, context.claims, descriptors).map_err(Taken::Share);
        let wait_budget = &mut waiting.wait_budget;
        let counters = &*self.table_config.counters;
        let mut asking =
            Asking { aside: &threads.aside, wait_budget, counters, user: context.member.uid };
        let own = room.and_then(|may_have_a_port| {
            let who = Who { payer, may_have_a_port };
            OwnAddress::take(examined, hop.source, remote, who, holds, descriptors, &mut asking)
        });
        let interface = hop.link.interface;
        let own =
            own.and_then(|own| match own.claim(examined, remote, interface, context.claims) {
                Ok(()) => Ok(own),
                Err(taken) => {
                    own.guard.map(|guard| guard.give_up(descriptors));
                    Err(taken)
                }
            });
        let OwnAddress { local, is_automatic, guard } = match own {
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
        options.mss_max = hop.mtu.and_then(|mtu| NonZeroU16::new(mss(mtu, remote.ip())));
        let generation = prepare(app, slot, examined, local, remote);
        let (number, region) = (app.number(), app.region());
        let key = (number, slot, generation);
        self.claimed.holds.add(key, uid, (local, remote), is_automatic, guard);
        let (cookie, inode) = (examined.cookie, examined.inode);
        let what = What::Unsent;
        let record = Record { app: number, generation, cookie, inode, what };
        self.keep((region, slot), record);
        let until = context.now + REACH_MAX;
        let look_at = context.now;
        let pending =
            Pending { app: number, slot, generation, local, remote, options, hop, look_at, until };
        if let Some(pending) = self.try_to_open(pending, context.now) {
            self.waiting.connects.push(pending);
        }
        Ok(Answer::slot((region, slot)))
    }

    /// Tells workers when the next hop's link address is known; gives the rest back.
    fn try_to_open(&mut self, pending: Pending, now: Nanos) -> Option<Pending> {
        let uid = self.apps.get(pending.app).map_or(u32::MAX, |app| app.uid);
        match self.network.neighbours.reach(&pending.hop, (uid, Cause::Connect), now) {
            Reach::Known(next_hop) => self.open(&pending, next_hop),
            Reach::Asked | Reach::Unasked if now < pending.until => {
                return Some(Pending { look_at: next_look(now, pending.until), ..pending });
            }
            Reach::Asked | Reach::Unasked | Reach::Unreachable => {
                self.claimed.holds.finish(pending.key(), now);
                if let Some(app) = self.apps.get(pending.app) {
                    app.fail(pending.slot, UNREACHABLE);
                }
            }
        }
        None
    }

    fn open(&mut self, pending: &Pending, next_hop: NextHop) {
        let Pending { app, slot, local, remote, options, .. } = *pending;
        let Some(region) = self.apps.get(app).map(App::region) else { return };
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
        for pending in std::mem::take(&mut self.waiting.connects) {
            let left = match pending.look_at > now {
                true => Some(pending),
                false => self.try_to_open(pending, now),
            };
            self.waiting.connects.extend(left);
        }
    }

    /// A connection that no worker has heard of is closed.
    pub(super) fn drop_unsent(&mut self, place: SlotKey, now: Nanos) {
        let Some(record) = self.records.remove(place) else { return };
        let key = (record.app, place.1, record.generation);
        self.waiting.connects.retain(|pending| pending.key() != key);
        self.claimed.holds.finish(key, now);
        if let Some(app) = self.apps.get(record.app) {
            app.streams.server.take_back_slot(place.1);
        }
    }
}

/// Writes what the application may know from the start; the slot's generation.
fn prepare(
    app: &App,
    slot: SlotId,
    examined: &Examined,
    local: SocketAddr,
    remote: SocketAddr,
) -> Generation {
    let Some(words) = app.words(slot) else { return Generation(0) };
    words.local.set(Some(local));
    words.remote.set(Some(remote));
    words.cookie.store(examined.cookie, Ordering::Relaxed);
    examined.show_options(words);
    words.state.store(Kind::Stream as u32 | SlotState::CONNECTING, Ordering::Release);
    app.streams.server.generation(slot)
}

/// Whether it is an IPv6 address of one link only (RFC 4291 2.5.6).
fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The largest payload of a segment in packets of `mtu` bytes.
fn mss(mtu: u32, remote: IpAddr) -> u16 {
    let headers = if remote.is_ipv4() { 20 + 20 } else { 40 + 20 };
    u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX)
}
