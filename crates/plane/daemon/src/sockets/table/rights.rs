//! Whether sockets that are served still have the right to their ports.

mod alone;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use base::Nanos;
use datapath::DetachReason;
use port::xdp::Ours;
use sys::socket_owner::{self, Owner, Transport};
use sys::{SysError, clock};

use super::super::connected::LOOK_MAX;
use super::super::names::SlotKey;
use super::super::records::{Record, What};
use super::super::rights::LOOPBACK;
use super::super::shares::Shares;
use super::SocketTable;
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent;

/// Addresses that one check asks about, at most; the next one goes on from there. A question takes
/// about ten microseconds: so a check keeps the attach server ten milliseconds at most, and with
/// 4,096 addresses each is asked about once a second.
const QUESTIONS_MAX: usize = 1024;

impl SocketTable {
    /// Ends what the kernel gives its port to no more.
    pub(super) fn check_rights(&mut self, now: Nanos) {
        if !self.claimed.rights.is_due(now) {
            return;
        }
        self.check_connected(now);
        let mut questions = 0;
        // One place has as many addresses as our interfaces, so this is an upper bound of what is
        // looked at.
        for place in self.claimed.rights.next(QUESTIONS_MAX) {
            let is_meant =
                |record: &&Record| matches!(record.what, What::Listener(_) | What::Datagram(_));
            let Some(record) = self.records.get(place).filter(is_meant) else {
                self.claimed.rights.forget(place);
                continue;
            };
            match self.has_right(record, &mut questions) {
                // What the kernel does not tell now it tells another time.
                Ok(true) | Err(_) => {}
                Ok(false) => self.end_unrightful(place, now),
            }
            if questions >= QUESTIONS_MAX {
                self.claimed.rights.stop_at(place);
                return;
            }
        }
    }

    /// Ends UDP sockets that get what is for connected sockets of other users, or may get it
    /// because nobody knows.
    fn check_connected(&mut self, now: Nanos) {
        let ports_of = |place: SlotKey| match self.records.get(place).map(|record| &record.what) {
            Some(What::Datagram(bound)) => {
                bound.destinations.iter().filter_map(|at| at.port).collect()
            }
            _ => Vec::new(),
        };
        let served = self.claimed.rights.watched().flat_map(ports_of);
        let served: BTreeSet<u16> =
            served.chain(self.claimed.rights.alone.ports.iter().copied()).collect();
        if served.is_empty() {
            return;
        }
        self.look_for_connected(&served);
        let connected = &self.claimed.connected;
        let gets_anothers = |place: &SlotKey| {
            let Some(Record { app, what: What::Datagram(bound), .. }) = self.records.get(*place)
            else {
                return false;
            };
            let uid = self.apps.get(*app).map_or(bound.holder.user(), |app| app.uid);
            bound.destinations.iter().any(|at| match (at.port, at.address) {
                (Some(port), Some(ip)) => {
                    connected.is_crowded(port)
                        || connected.has_others(bound.holder, uid, port, &[ip])
                }
                _ => false,
            })
        };
        let lost: Vec<SlotKey> = self.claimed.rights.watched().filter(gets_anothers).collect();
        lost.into_iter().for_each(|place| self.end_unrightful(place, now));
    }

    /// Looks which UDP sockets of the kernel are connected, at the ports whose turn it is, unless
    /// the last look was just now.
    fn look_for_connected(&mut self, served: &BTreeSet<u16>) {
        let begun = clock::now();
        if self.claimed.connected.is_resting(begun) {
            return;
        }
        let ports = self.claimed.connected.next_ports(served);
        let had = clock::of_thread();
        let found = self.connected_at(Transport::Udp, ports.clone(), LOOK_MAX);
        let took = clock::of_thread().since(had);
        match found {
            Ok(found) => self.claimed.connected.note(ports, found, begun, took),
            // What the kernel does not tell now it tells another time.
            Err(_) => self.claimed.connected.note_failure(begun, took),
        }
    }

    /// Whether it is known who has connected UDP sockets at a port. If the last look does not
    /// answer, there is one at that port alone, for the time that its user may have others wait.
    pub(super) fn knows_connected_at(&mut self, port: u16, uid: u32) -> bool {
        self.look_for_connected(&[port].into());
        let begun = clock::now();
        if self.claimed.connected.answers(begun) {
            return true;
        }
        let left = self.waiting.wait_budget.left(uid, begun).min(LOOK_MAX);
        if left == Nanos::ZERO {
            return false;
        }
        let had = clock::of_thread();
        let found = self.connected_at(Transport::Udp, port..=port, left);
        self.waiting.wait_budget.note(uid, clock::of_thread().since(had));
        let Ok(Some(found)) = found else { return false };
        self.claimed.connected.replace(&(port..=port), found);
        true
    }

    /// Sockets with peers at addresses of our interfaces and one of these ports. None: there may be
    /// others that the kernel had no time to tell.
    fn connected_at(
        &self,
        transport: Transport,
        ports: RangeInclusive<u16>,
        at_most: Nanos,
    ) -> Result<Option<Vec<(SocketAddr, Owner)>>, SysError> {
        // Sorted.
        let own = self.network.neighbours.addresses();
        let mut found = Vec::new();
        let is_all = socket_owner::each_connected(transport, ports, at_most, |at, owner| {
            if own.binary_search(&at.ip()).is_ok() {
                found.push((at, owner));
            }
        })?;
        Ok(is_all.then_some(found))
    }

    fn has_right(&self, record: &Record, questions: &mut usize) -> Result<bool, SysError> {
        let (transport, holder, addresses) = match &record.what {
            What::Listener(listener) => {
                let holder = listener.holder;
                if listener.addresses.is_empty() {
                    // It serves programs of this host.
                    *questions += 1;
                    let local = match listener.local.ip().is_unspecified() {
                        false => listener.local,
                        true if listener.takes.0 => {
                            (Ipv4Addr::LOCALHOST, listener.local.port()).into()
                        }
                        true => (Ipv6Addr::LOCALHOST, listener.local.port()).into(),
                    };
                    let owner = socket_owner::of_address(Transport::Tcp, local, LOOPBACK)?;
                    return Ok(owner.is_some_and(|owner| holder.is(owner)));
                }
                (Transport::Tcp, holder, listener.addresses.clone())
            }
            What::Datagram(bound) => {
                let ends = bound.destinations.iter();
                let ends = ends.filter_map(|at| Some(SocketAddr::new(at.address?, at.port?)));
                (Transport::Udp, bound.holder, ends.collect())
            }
            What::Stream | What::Unsent | What::Local => return Ok(true),
        };
        *questions += addresses.len() * self.claimed.rights.interface_count();
        for address in addresses {
            if !self.claimed.rights.gets(transport, address, holder)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn end_unrightful(&mut self, place: SlotKey, now: Nanos) {
        let app = self.records.get(place).map(|record| record.app);
        self.claimed.rights.forget(place);
        self.table_config.counters.count(AttachServerEvent::RightsLost);
        match self.records.get(place).map(|record| &record.what) {
            Some(What::Listener(_)) => self.end_listener(place, now),
            Some(What::Datagram(_)) => self.end_datagrams(place, now),
            _ => {}
        }
        // Perhaps its descriptor is closed, and this was heard first: then nothing else will end
        // what had no more.
        app.into_iter().for_each(|app| self.settle(app, DetachReason::Left, now));
    }

    /// Whether a user may have that many more addresses taken from the kernel.
    pub(super) fn has_room_for_addresses(&self, uid: u32, more: usize, claims: &Claims) -> bool {
        let of_record = |place: SlotKey| {
            let record = self.records.get(place)?;
            self.apps.get(record.app).filter(|app| app.uid == uid)?;
            Some(match &record.what {
                What::Listener(listener) => listener.addresses.len(),
                What::Datagram(bound) => bound.destinations.len(),
                What::Stream | What::Unsent | What::Local => 0,
            })
        };
        let own = self.claimed.rights.watched().filter_map(of_record).sum::<usize>();
        let own = own + self.claimed.lingering.count_of(uid);
        let limit = Ours::ENTRIES_MAX as usize;
        let has_room = Shares::allows(limit, uid, own, claims.count(), more);
        if !has_room {
            self.table_config.counters.count(AttachServerEvent::ClaimShareUsedUp);
        }
        has_room
    }

    /// Whether another user than `uid` has an address in the kernel, whose socket is none that is
    /// served.
    pub(super) fn is_anothers(&self, address: SocketAddr, uid: u32) -> bool {
        self.claimed.rights.owners(Transport::Tcp, address).any(|owner| {
            owner.uid != uid
                && owner.is_listener
                && !self.records.named(owner.cookie).any(|(_, record)| {
                    // An accepted connection's name is its program's word: it could be this cookie.
                    matches!(record.what, What::Listener(_))
                })
        })
    }
}
