//! Whose an address's packets are by the kernel: asked when a socket is offered, and again for as
//! long as it is served.
//!
//! A socket of the kernel is the right to its port. Its program can lose that right and keep the
//! descriptor: by shutdown(2), by an option that binds it to a device, by a peer that it takes on,
//! by giving up a port that it did not choose. Then another user may have the port, and what is
//! taken from the kernel would be that user's. The kernel tells nobody of any of these, so it is
//! asked: who would get a packet that comes to this address, by each interface of ours?

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Bound;

use base::Nanos;
use datapath::DetachReason;
use port::xdp::Ours;
use sys::SysError;
use sys::socket_owner::{self, Owner, Transport};

use super::examine::Examined;
use super::names::SlotKey;
use super::records::{Record, What};
use super::shares::Shares;
use super::table::SocketTable;
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent;

/// Time between two checks.
const CHECK_EVERY: Nanos = Nanos::from_millis(250);

/// Addresses that one check asks about, at most; the next one goes on from there. A question takes
/// about ten microseconds: so a check keeps the attach server ten milliseconds at most, and with
/// 4,096 addresses each is asked about once a second.
const QUESTIONS_MAX: usize = 1024;

/// The loopback interface of every network namespace.
const LOOPBACK: u32 = 1;

/// Who has a right to an address, as the kernel saw it when a socket was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    cookie: u64,
    /// SO_REUSEPORT: others may have it, too, if this user made them. The kernel lets in no
    /// other's.
    shared_by: Option<u32>,
}

impl Holder {
    pub(super) fn of(examined: &Examined) -> Self {
        let shared_by = examined.shares_port.then_some(examined.owner);
        Self { cookie: examined.cookie, shared_by }
    }

    fn is(self, owner: Owner) -> bool {
        owner.cookie == self.cookie || self.shared_by == Some(owner.uid)
    }
}

/// Sockets whose right is checked.
#[derive(Debug)]
pub(super) struct Rights {
    /// Numbers of the interfaces whose packets we take.
    interfaces: Vec<u32>,
    /// Listeners and UDP sockets. One that has ended goes with the next look at it.
    watched: BTreeSet<SlotKey>,
    /// The next check begins behind it.
    last: Option<SlotKey>,
    look_at: Nanos,
}

impl Rights {
    pub(super) fn new(interfaces: impl IntoIterator<Item = u32>) -> Self {
        let interfaces: BTreeSet<u32> = interfaces.into_iter().collect();
        let interfaces = interfaces.into_iter().collect();
        Self { interfaces, watched: BTreeSet::new(), last: None, look_at: Nanos::ZERO }
    }

    /// From now on the right of the socket at `place` is checked.
    pub(super) fn watch(&mut self, place: SlotKey) {
        self.watched.insert(place);
    }

    /// When the next check is due.
    pub(super) fn next_deadline(&self) -> Nanos {
        if self.watched.is_empty() { Nanos::FAR_FUTURE } else { self.look_at }
    }

    /// Whether the kernel gives what comes to `address` by our interfaces to that holder.
    pub(super) fn gets(
        &self,
        transport: Transport,
        address: SocketAddr,
        holder: Holder,
    ) -> Result<bool, SysError> {
        let of = |interface: &u32| socket_owner::of_address(transport, address, *interface);
        // Without a port of ours nothing is taken from the kernel.
        self.interfaces.iter().try_fold(true, |is_all, interface| {
            Ok(is_all && of(interface)?.is_some_and(|owner| holder.is(owner)))
        })
    }

    /// Whoever the kernel gives `address` to on one of our interfaces.
    pub(super) fn owners(
        &self,
        transport: Transport,
        address: SocketAddr,
    ) -> impl Iterator<Item = Owner> {
        let of = move |interface: &u32| {
            socket_owner::of_address(transport, address, *interface).ok().flatten()
        };
        self.interfaces.iter().filter_map(of)
    }

    /// The next ones to be looked at, each once.
    fn next(&mut self, count: usize) -> Vec<SlotKey> {
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.watched.range((behind, Bound::Unbounded));
        let first = self.watched.iter();
        let count = count.min(self.watched.len());
        let places: Vec<SlotKey> = rest.chain(first).take(count).copied().collect();
        self.last = places.last().copied();
        places
    }
}

impl SocketTable {
    /// Ends what the kernel gives its port to no more.
    pub(super) fn check_rights(&mut self, now: Nanos) {
        if self.rights.watched.is_empty() || now < self.rights.look_at {
            return;
        }
        self.rights.look_at = now + CHECK_EVERY;
        let mut questions = 0;
        // One place has as many addresses as our interfaces, so this is an upper bound of what is
        // looked at.
        for place in self.rights.next(QUESTIONS_MAX) {
            let is_meant =
                |record: &&Record| matches!(record.what, What::Listener(_) | What::Datagram(_));
            let Some(record) = self.records.get(place).filter(is_meant) else {
                self.rights.watched.remove(&place);
                continue;
            };
            match self.has_right(record, &mut questions) {
                // What the kernel does not tell now it tells another time.
                Ok(true) | Err(_) => {}
                Ok(false) => self.end_unrightful(place, now),
            }
            if questions >= QUESTIONS_MAX {
                self.rights.last = Some(place);
                return;
            }
        }
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
                            (std::net::Ipv4Addr::LOCALHOST, listener.local.port()).into()
                        }
                        true => (std::net::Ipv6Addr::LOCALHOST, listener.local.port()).into(),
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
        *questions += addresses.len() * self.rights.interfaces.len();
        for address in addresses {
            if !self.rights.gets(transport, address, holder)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn end_unrightful(&mut self, place: SlotKey, now: Nanos) {
        let app = self.records.get(place).map(|record| record.app);
        self.rights.watched.remove(&place);
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

    /// Whether a user may have so many more addresses taken from the kernel.
    pub(super) fn has_room_for_addresses(&self, uid: u32, more: usize, claims: &Claims) -> bool {
        let of_record = |place: &SlotKey| {
            let record = self.records.get(*place)?;
            self.apps.get(&record.app).filter(|app| app.uid == uid)?;
            Some(match &record.what {
                What::Listener(listener) => listener.addresses.len(),
                What::Datagram(bound) => bound.destinations.len(),
                What::Stream | What::Unsent | What::Local => 0,
            })
        };
        let own = self.rights.watched.iter().filter_map(of_record).sum::<usize>();
        let own = own + self.lingering.count_of(uid);
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
        self.rights.owners(Transport::Tcp, address).any(|owner| {
            owner.uid != uid
                && owner.is_listener
                && !self.records.named(owner.cookie).any(|(_, record)| {
                    // An accepted connection's name is its program's word: it could be this cookie.
                    matches!(record.what, What::Listener(_))
                })
        })
    }
}
