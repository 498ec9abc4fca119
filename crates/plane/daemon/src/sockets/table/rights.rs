//! Whether sockets that are served still have the right to their ports.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use base::Nanos;
use datapath::DetachReason;
use port::xdp::{Destination, Ours, Protocol};
use sys::socket_owner::{self, Owner, Transport};
use sys::{SysError, clock};

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

    /// Ends UDP sockets that get what is for connected sockets of other users.
    fn check_connected(&mut self, now: Nanos) {
        let is_datagram = |record: &Record| matches!(record.what, What::Datagram(_));
        let has_any = self
            .claimed
            .rights
            .watched()
            .any(|place| self.records.get(place).is_some_and(is_datagram));
        // What the kernel does not tell now it tells another time.
        if !has_any || self.look_for_connected().is_err() {
            return;
        }
        let connected = &self.claimed.connected;
        let gets_anothers = |place: &SlotKey| {
            let Some(Record { app, what: What::Datagram(bound), .. }) = self.records.get(*place)
            else {
                return false;
            };
            let uid = self.apps.get(*app).map_or(bound.holder.user(), |app| app.uid);
            bound.destinations.iter().any(|at| match (at.port, at.address) {
                (Some(port), Some(ip)) => connected.has_others(bound.holder, uid, port, &[ip]),
                _ => false,
            })
        };
        let lost: Vec<SlotKey> = self.claimed.rights.watched().filter(gets_anothers).collect();
        lost.into_iter().for_each(|place| self.end_unrightful(place, now));
    }

    /// Looks which UDP sockets of the kernel are connected, unless the last look is good enough.
    pub(super) fn look_for_connected(&mut self) -> Result<(), SysError> {
        let begun = clock::now();
        if self.claimed.connected.is_fresh(begun) {
            return Ok(());
        }
        let own = self.network.neighbours.addresses();
        let mut found = Vec::new();
        socket_owner::each_connected(|at, owner| {
            if own.contains(&at.ip()) {
                found.push((at, owner));
            }
        })?;
        let took = clock::now().since(begun);
        self.claimed.connected.note(found, begun, took);
        Ok(())
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

    /// Another user than `uid` who has a listener or a UDP socket at the kernel that gets what
    /// comes to `destination` by our interfaces. Of all ports nothing is asked.
    pub(crate) fn owner_other_than(&self, destination: Destination, uid: u32) -> Option<u32> {
        let port = destination.port?;
        let transport = match destination.protocol {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udp => Transport::Udp,
        };
        let own = self.network.neighbours.addresses();
        let addresses = match &destination.address {
            Some(address) => std::slice::from_ref(address),
            None => own,
        };
        let owners = addresses.iter().flat_map(|address| {
            self.claimed.rights.owners(transport, SocketAddr::new(*address, port))
        });
        let is_anothers =
            |owner: &Owner| owner.uid != uid && (owner.is_listener || transport == Transport::Udp);
        owners.filter(is_anothers).map(|owner| owner.uid).next()
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
