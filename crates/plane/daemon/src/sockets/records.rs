//! What the slow side keeps about each socket that has a name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::{AppId, Generation, RegionId, SlotId};
use port::xdp::Destination;
use shm::sockets::Backlog;

use super::names::{Names, SlotKey};
use super::rights::Holder;

/// A socket.
#[derive(Debug)]
pub(super) struct Record {
    /// Whose.
    pub(super) app: AppId,
    /// The slot's, since this socket has it.
    pub(super) generation: Generation,
    /// SO_COOKIE of the descriptor that the program sees; several may share the socket, but not the
    /// name.
    pub(super) cookie: u64,
    /// Zero: not known.
    pub(super) inode: u64,
    pub(super) what: What,
}

/// What kind of socket.
#[derive(Debug)]
pub(super) enum What {
    Listener(Listener),
    /// A connection that a worker has.
    Stream,
    /// A connection that no worker has heard of, and none will if it has failed.
    Unsent,
    Datagram(Bound),
    /// An end of a connection within this host.
    Local,
}

/// A socket for datagrams.
#[derive(Debug)]
pub(super) struct Bound {
    /// What was taken from the kernel for it.
    pub(super) destinations: Vec<Destination>,
    /// Whose the kernel's port is.
    pub(super) holder: Holder,
    /// Its worker was told to close it, as its program says in its own memory, and was waited for.
    /// That happens once: a program may say so and mark nothing, or have much that has not left.
    pub(super) is_told_to_close: bool,
}

/// Who listens.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) local: SocketAddr,
    /// IPv4, IPv6.
    pub(super) takes: (bool, bool),
    /// Where workers listen for it.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) backlog: Arc<Backlog>,
    pub(super) backlog_max: u32,
    pub(super) shares_port: bool,
    /// Whose the kernel's port is.
    pub(super) holder: Holder,
}

/// All sockets that have a name.
#[derive(Debug, Default)]
pub(super) struct Records {
    by_place: BTreeMap<SlotKey, Record>,
    names: Names,
}

impl Records {
    /// A socket has a name now. False: its last descriptor was closed already.
    pub(super) fn insert(&mut self, place: SlotKey, record: Record) -> bool {
        self.remove(place);
        let is_open = self.names.add(record.cookie, place);
        self.by_place.insert(place, record);
        is_open
    }

    pub(super) fn remove(&mut self, place: SlotKey) -> Option<Record> {
        let record = self.by_place.remove(&place)?;
        self.names.remove(record.cookie, place);
        Some(record)
    }

    pub(super) fn get(&self, place: SlotKey) -> Option<&Record> {
        self.by_place.get(&place)
    }

    pub(super) fn get_mut(&mut self, place: SlotKey) -> Option<&mut Record> {
        self.by_place.get_mut(&place)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&SlotKey, &Record)> {
        self.by_place.iter()
    }

    /// Those of a region.
    pub(super) fn of_region(&self, region: RegionId) -> impl Iterator<Item = (SlotKey, &Record)> {
        let all = self.by_place.range((region, SlotId(0))..=(region, SlotId(u32::MAX)));
        all.map(|(place, record)| (*place, record))
    }

    /// All that listen.
    pub(super) fn listeners(&self) -> impl Iterator<Item = (SlotKey, &Record, &Listener)> {
        self.by_place.iter().filter_map(|(place, record)| match &record.what {
            What::Listener(listener) => Some((*place, record, listener)),
            _ => None,
        })
    }

    /// Those whose descriptor has this cookie, or who say so.
    pub(super) fn named(&self, cookie: u64) -> impl Iterator<Item = (SlotKey, &Record)> {
        let places = self.names.of(cookie).iter();
        places.filter_map(|place| Some((*place, self.by_place.get(place)?)))
    }

    /// All cookies.
    pub(super) fn cookies(&self) -> impl Iterator<Item = u64> {
        self.names.cookies()
    }

    /// The last descriptor with this cookie was closed: whose it was.
    pub(super) fn end(&mut self, cookie: u64) -> Vec<SlotKey> {
        self.names.end(cookie)
    }
}
