//! Connections within this host: two applications share a region, a *local pair*, and the daemon
//! stands aside.
//!
//! Each side knows the region by a number of its own, so that a program may be connected to itself.
//! A connection is a pair of slots: the first is the connecting side's, the second the accepting
//! side's.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use attach::FallbackReason;
use base::{AppId, Generation, RegionId, SlotId};
use rustix::io::Errno;
use shm::sockets::{Entry, Side};
use sys::eventfd::EventFd;
use sys::socket;
use sys::socket_owner::{self, Transport};

use super::super::answer::{Answer, Context, Refusal};
use super::super::aside::Passed;
use super::super::descriptors::Payer;
use super::super::examine::{Examined, covers};
use super::super::local_pair::{DESCRIPTORS, End, LocalPair, SIDES, inherit};
use super::super::names::SlotKey;
use super::super::records::{Record, What};
use super::super::regions::Region;
use super::super::rights::LOOPBACK;
use super::SocketTable;
use crate::attach_server_counters::AttachServerEvent;

impl SocketTable {
    /// Connects to a program on this host, if it listens here.
    pub(super) fn connect_within(
        &mut self,
        context: &mut Context<'_>,
        examined: &Examined,
        remote: SocketAddr,
        source: IpAddr,
    ) -> Result<Answer, Refusal> {
        if let Some(why) = self.network.guarded(context.member.pid, context.now) {
            return Err(why.into());
        }
        let app = self.apps.get(context.member.app).ok_or(Refusal::Errno(Errno::INVAL))?;
        if !app.tenant.may_connect(remote) {
            return Err(Refusal::denied(app.tenant.denied));
        }
        let nobody = FallbackReason::LoopbackPeerNotAccelerated;
        let (listening, accepting) = self.listener_at(remote, examined.cookie).ok_or(nobody)?;
        if !self.still_listens(listening, remote) {
            // Its end has not been heard of yet. The kernel says what comes of such a call.
            return Err(nobody.into());
        }
        if self.apps.get(accepting).is_none_or(|other| other.uid != app.uid) {
            // Each could write the other's words, its locks and settings too.
            return Err(FallbackReason::OtherUser.into());
        }
        let number = self.local_pair(app.number(), accepting).ok_or(FallbackReason::NoMemory)?;
        let local = match examined.local.port() {
            0 => {
                let socket = Passed::clone(&examined.socket);
                let bind = move || socket::bind(socket.as_fd(), SocketAddr::new(source, 0));
                let bound = self.ask_aside(context.member.uid, bind);
                let bound = bound.ok_or(FallbackReason::DaemonBusy)?;
                socket::canonical(bound.map_err(|error| Refusal::Errno(error.errno()))?)
            }
            port => {
                let name = (SocketAddr::new(source, port), remote);
                if self.local_pairs.values().any(|local_pair| local_pair.has(name)) {
                    // One name is one connection at a time.
                    return Err(Refusal::Errno(Errno::ADDRNOTAVAIL));
                }
                name.0
            }
        };
        let local_pair = self.local_pairs.get_mut(&number).ok_or(FallbackReason::NoMemory)?;
        let first = local_pair.open(local, remote, examined.cookie);
        let first = first.ok_or(FallbackReason::TooManySockets)?;
        let [own, other] = [local_pair.ends[0].region, local_pair.ends[1].region];
        if !self.announce(listening, Entry { region: other, slot: first.next() }, number) {
            if let Some(local_pair) = self.local_pairs.get_mut(&number) {
                local_pair.end(first);
                local_pair.end(first.next());
            }
            // The kernel's listener has a queue of its own.
            return Err(nobody.into());
        }
        let record = Record {
            app: context.member.app,
            generation: Generation(0),
            cookie: examined.cookie,
            inode: examined.inode,
            what: What::Local,
        };
        self.keep((own, first), record);
        let answer = Answer::slot((own, first));
        if !context.member.knows.insert(own) {
            return Ok(answer);
        }
        let local_pair = self.local_pairs.get(&number).ok_or(FallbackReason::NoMemory)?;
        local_pair.give(Side::Zero, answer).map_err(Refusal::Errno)
    }

    /// Who listens at an address of this host: the place, and the application. Who listens at just
    /// that address goes before those that listen at all; several share by the socket that
    /// connects.
    fn listener_at(&self, address: SocketAddr, cookie: u64) -> Option<(SlotKey, AppId)> {
        let fits = self.records.listeners().filter(|(_, record, listener)| {
            listener.local.port() == address.port()
                && covers(listener.local.ip(), listener.takes, address.ip())
                && self
                    .apps
                    .get(record.app)
                    .is_some_and(|app| app.tenant.may_listen(app.uid, address))
        });
        let mut fits: Vec<_> = fits.collect();
        if fits.iter().any(|(.., listener)| !listener.local.ip().is_unspecified()) {
            fits.retain(|(.., listener)| !listener.local.ip().is_unspecified());
        }
        let at = usize::try_from(cookie).unwrap_or(0) % fits.len().max(1);
        fits.get(at).map(|(place, record, _)| (*place, record.app))
    }

    /// Whether the kernel, asked now, gives callers of `address` to that listener.
    fn still_listens(&self, place: SlotKey, address: SocketAddr) -> bool {
        let listener = self.records.get(place).and_then(|record| match &record.what {
            What::Listener(listener) => Some(listener),
            _ => None,
        });
        let owner = socket_owner::of_address(Transport::Tcp, address, LOOPBACK).ok().flatten();
        listener.zip(owner).is_some_and(|(listener, owner)| listener.holder.is(owner))
    }

    /// The local pair between two applications; a new one if there is none.
    fn local_pair(&mut self, connecting: AppId, accepting: AppId) -> Option<RegionId> {
        let is_it = |local_pair: &LocalPair| {
            let [one, other] = &local_pair.ends;
            (one.app, other.app) == (connecting, accepting) && !one.is_gone && !other.is_gone
        };
        if let Some((number, _)) = self.local_pairs.iter().find(|(_, local_pair)| is_it(local_pair))
        {
            return Some(*number);
        }
        let memory = |app: AppId| self.apps.get(app).map(|app| app.tenant.memory_mib);
        let memory_mib = memory(connecting)?.min(memory(accepting)?);
        let uid = self.apps.get(connecting)?.uid;
        let payer = Payer { uid, app: connecting };
        if !self.descriptors.has_room(payer, DESCRIPTORS) {
            self.table_config.counters.count(AttachServerEvent::DescriptorShareUsedUp);
            return None;
        }
        let regions = [self.regions.new_number()?, self.regions.new_number()?];
        let end = |app: AppId, region| {
            let wakers = Arc::clone(&self.apps.get(app)?.wakers);
            Some(End { app, region, wake: EventFd::new().ok()?, wakers, is_gone: false })
        };
        let ends = [end(connecting, regions[0])?, end(accepting, regions[1])?];
        let quota = Arc::clone(&self.apps.get(connecting)?.quota);
        let local_pair = LocalPair::create(ends, uid, memory_mib, quota)?;
        self.descriptors.take(payer, DESCRIPTORS);
        let number = regions[0];
        for (region, side) in regions.into_iter().zip(SIDES) {
            self.regions.insert(region, Region::LocalPair(number, side));
        }
        self.local_pairs.insert(number, local_pair);
        Some(number)
    }

    /// Adds a connection to those that wait at a listener.
    fn announce(&self, place: SlotKey, entry: Entry, number: RegionId) -> bool {
        let Some(record) = self.records.get(place) else { return false };
        let (What::Listener(listener), Some(app)) = (&record.what, self.apps.get(record.app))
        else {
            return false;
        };
        let Some(words) = app.words(place.1) else { return false };
        let local_pair = self.local_pairs.get(&number);
        if let Some(accepted) = local_pair.and_then(|local_pair| local_pair.words(entry.slot)) {
            inherit(words, accepted);
        }
        let is_added = listener.backlog.push(app.streams.server.memory(), words, entry);
        if is_added {
            app.tell(place.1);
        }
        is_added
    }

    /// The end of a connection within this host, at `place`, is over, if it is that application's.
    pub(super) fn end_local(&mut self, place: SlotKey, app: AppId) {
        let Some(local_pair) = self.local_pair_at(place, app) else { return };
        local_pair.end(place.1);
        self.records.remove(place);
        self.sweep_local_pairs();
    }

    /// The same for one that nobody has taken: its peer hears a reset, as from Linux.
    pub(super) fn reset_local(&mut self, place: SlotKey, app: AppId) {
        if let Some(local_pair) = self.local_pair_at(place, app) {
            local_pair.reset(place.1);
        }
        self.end_local(place, app);
    }

    /// The local pair at whose place an end of the application is.
    fn local_pair_at(&mut self, (region, slot): SlotKey, app: AppId) -> Option<&mut LocalPair> {
        let Some(Region::LocalPair(number, side)) = self.regions.get(region) else { return None };
        let local_pair = self.local_pairs.get_mut(&number)?;
        (local_pair.app(side) == app && slot.end() == side as usize).then_some(local_pair)
    }

    /// Accepted ends that were named since the last look get their records.
    pub(super) fn learn_names(&mut self) {
        let mut late = Vec::new();
        for local_pair in self.local_pairs.values_mut() {
            let End { app, region, .. } = local_pair.ends[1];
            for (slot, cookie) in local_pair.learn() {
                let what = What::Local;
                let record = Record { app, generation: Generation(0), cookie, inode: 0, what };
                if let Some(before) = self.records.remove((region, slot)) {
                    self.claimed.release(before);
                }
                if !self.records.insert((region, slot), record) {
                    late.push(((region, slot), app));
                }
            }
        }
        for (place, app) in late {
            self.end_local(place, app);
        }
    }

    /// An application goes: its ends are over.
    pub(super) fn end_local_pairs_of(&mut self, app: AppId) {
        for local_pair in self.local_pairs.values_mut() {
            for at in 0..2 {
                if local_pair.ends[at].app != app {
                    continue;
                }
                local_pair.ends[at].is_gone = true;
                let region = local_pair.ends[at].region;
                self.regions.remove(region);
                let slots: Vec<SlotId> =
                    local_pair.pairs.keys().map(|first| [*first, first.next()][at]).collect();
                for slot in slots {
                    local_pair.end(slot);
                    self.records.remove((region, slot));
                }
            }
        }
        self.sweep_local_pairs();
    }

    fn sweep_local_pairs(&mut self) {
        let over = self.local_pairs.extract_if(.., |_, local_pair| local_pair.is_over());
        for (_, local_pair) in Vec::from_iter(over) {
            local_pair.server.memory().end(attach::DetachReason::Left.number());
            local_pair.ends.iter().for_each(|end| self.regions.remove(end.region));
            let payer = Payer { uid: local_pair.uid, app: local_pair.ends[0].app };
            self.descriptors.give_back(payer, DESCRIPTORS);
            let LocalPair { uid, ends, .. } = local_pair;
            // Its programs have these, too, and may keep whoever closes the last copy.
            ends.into_iter().for_each(|end| self.close_later(uid, end.wake));
        }
    }
}
