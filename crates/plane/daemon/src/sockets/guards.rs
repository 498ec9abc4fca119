//! Connections that were opened here: what their peers send is taken from the kernel before the
//! first segment leaves, and given back when no late segment can come any more; so are their ports.

mod guard;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Weak;

use base::{AppId, Generation, Nanos, SlotId};
use port::xdp::{Destination, Flow, Flows, Protocol};

use super::descriptors::{Descriptors, Payer};
use super::shares::{Shares, automatic_ports};
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent;
use guard::Guarded;

pub(super) use guard::Guard;

/// What packets to `address` are for the kernel's program.
pub(super) fn destination(protocol: Protocol, address: SocketAddr) -> Destination {
    Destination { protocol, address: Some(address.ip()), port: Some(address.port()) }
}

/// A connection's own address and its peer's.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// What packets from its peer are.
pub(super) fn flow((local, remote): Ends) -> Flow {
    Flow { protocol: Protocol::Tcp, local, remote }
}

/// A socket: the application's number, its slot, the generation.
pub(super) type SocketKey = (AppId, SlotId, Generation);

/// Names of connections that are over, held at once, at most: each may be a descriptor. Beyond that
/// the one that would go first goes early, of the user who has most of them; as in Linux where the
/// table of TIME-WAIT is full (net.ipv4.tcp_max_tw_buckets).
const LEAVING_MAX: usize = 4096;

/// Ports that are looked at, at most, for one that a connection can share.
const SHARED_LOOKS_MAX: usize = 1024;

/// What is held for a connection.
struct Hold {
    uid: u32,
    ends: Ends,
    is_automatic: bool,
    guard: Option<Guard>,
}

/// Everything that is held.
pub(super) struct Holds {
    open: BTreeMap<SocketKey, Hold>,
    /// The names that are taken, and whether the port was chosen for the program.
    names: BTreeMap<Ends, bool>,
    guards: BTreeMap<SocketAddr, Weak<Guarded>>,
    /// By when they go; the number tells those of one moment apart.
    leaving: BTreeMap<(Nanos, u64), Hold>,
    /// The same of each user.
    leaving_of: BTreeMap<u32, BTreeSet<(Nanos, u64)>>,
    count: u64,
    /// Ports that were chosen for programs, by address: for which user first, and how many
    /// connections come from there. While there is one, the kernel gives the port to nobody.
    chosen: BTreeMap<SocketAddr, (u32, u32)>,
    ports: Shares,
    /// Where the look for a port to share goes on.
    next_shared: u16,
    /// Connections in the map of the kernel's program.
    flows: Shares,
}

impl Default for Holds {
    fn default() -> Self {
        Self::of(automatic_ports())
    }
}

impl Holds {
    fn of(ports: usize) -> Self {
        Self {
            open: BTreeMap::new(),
            names: BTreeMap::new(),
            guards: BTreeMap::new(),
            leaving: BTreeMap::new(),
            leaving_of: BTreeMap::new(),
            count: 0,
            chosen: BTreeMap::new(),
            ports: Shares::new(ports),
            next_shared: 0,
            flows: Shares::new(Flows::ENTRIES_MAX as usize),
        }
    }

    /// Whether a user may hold one more connection. Those of its own that are over go early for it.
    /// False: it may, from a port that it has already.
    ///
    /// # Errors
    /// What it has too many of.
    pub(super) fn make_room(
        &mut self,
        uid: u32,
        claims: &mut Claims,
        descriptors: &mut Descriptors,
    ) -> Result<bool, AttachServerEvent> {
        let room = |held: &Self| match held.flows.has_room(uid, 1) {
            true => Ok(held.ports.has_room(uid, 1)),
            false => Err(AttachServerEvent::FlowShareUsedUp),
        };
        let mut told = room(self);
        while told != Ok(true)
            && let Some(first) = self.first_leaving_of(uid)
        {
            self.remove_leaving(first, claims, descriptors);
            told = room(self);
        }
        told
    }

    /// Gives the names of ended connections up early while the daemon has no descriptor left for
    /// another port: how many.
    pub(super) fn make_way(
        &mut self,
        payer: Payer,
        claims: &mut Claims,
        descriptors: &mut Descriptors,
    ) -> usize {
        let mut count = 0;
        while !descriptors.has_room(payer, 1)
            && let Some(first) = self.first_leaving_of(payer.uid).or_else(|| self.first_of_most())
        {
            self.remove_leaving(first, claims, descriptors);
            count += 1;
        }
        count
    }

    /// The first to go of the user who has most of them.
    fn first_of_most(&self) -> Option<(Nanos, u64)> {
        let most = self.leaving_of.iter().max_by_key(|(_, of)| of.len());
        most.and_then(|(uid, _)| self.first_leaving_of(*uid))
    }

    /// The guard of a port that is guarded already.
    pub(super) fn guard_of(&self, local: SocketAddr) -> Option<Guard> {
        self.guards.get(&local).and_then(Guard::upgrade)
    }

    /// A connection is about to be opened; its packets are claimed already.
    pub(super) fn add(
        &mut self,
        key: SocketKey,
        uid: u32,
        ends: Ends,
        is_automatic: bool,
        guard: Option<Guard>,
    ) {
        if let Some(guard) = &guard {
            self.guards.insert(ends.0, guard.downgrade());
        }
        self.names.insert(ends, is_automatic);
        self.flows.take(uid, 1);
        if is_automatic {
            let (_, count) = self.chosen.entry(ends.0).or_insert((uid, 0));
            *count += 1;
            if *count == 1 {
                self.ports.take(uid, 1);
            }
        }
        self.open.insert(key, Hold { uid, ends, is_automatic, guard });
    }

    /// A port of `source` that was chosen for the same user, from which no connection leads to
    /// `remote`: there are fewer ports than pairs of a port and a peer (RFC 9293 3.4, a connection
    /// is named by both).
    pub(super) fn shared_port(
        &mut self,
        source: IpAddr,
        remote: SocketAddr,
        uid: u32,
    ) -> Option<(SocketAddr, Guard)> {
        let at = |port| SocketAddr::new(source, port);
        let (from, most) = (at(self.next_shared), at(u16::MAX));
        let all = self.chosen.range(from..=most).chain(self.chosen.range(at(0)..from));
        let mut all = all.filter(|(local, _)| local.ip() == source).take(SHARED_LOOKS_MAX);
        let fits = |(local, (first, _)): &(&SocketAddr, &(u32, u32))| {
            *first == uid && !self.names.contains_key(&(**local, remote))
        };
        let found = all.find_map(|one| {
            let local = *one.0;
            fits(&one).then(|| self.guard_of(local)).flatten().map(|guard| (local, guard))
        });
        self.next_shared = found.as_ref().map_or(0, |(local, _)| local.port().wrapping_add(1));
        found
    }

    /// Whether a connection of that name is there, or ended not long ago, for which the port was
    /// chosen.
    pub(super) fn has_chosen(&self, ends: Ends) -> bool {
        self.names.get(&ends).is_some_and(|is_automatic| *is_automatic)
    }

    /// Whether it is held for that socket.
    #[cfg(test)]
    fn has(&self, key: SocketKey) -> bool {
        self.open.contains_key(&key)
    }

    /// The connection is over; its name stays taken until `until`.
    pub(super) fn finish(&mut self, key: SocketKey, until: Nanos) {
        let Some(hold) = self.open.remove(&key) else { return };
        self.count += 1;
        let at = (until, self.count);
        self.leaving_of.entry(hold.uid).or_default().insert(at);
        self.leaving.insert(at, hold);
    }

    /// The connection is the kernel's, which has its port by a socket of the program's.
    pub(super) fn give_to_kernel(
        &mut self,
        key: SocketKey,
        claims: &mut Claims,
        descriptors: &mut Descriptors,
    ) {
        self.finish(key, Nanos::ZERO);
        // Nothing else goes so soon.
        while let Some(&first) = self.leaving.keys().next()
            && first.0 == Nanos::ZERO
        {
            self.remove_leaving(first, claims, descriptors);
        }
    }

    /// All connections of an application are over.
    pub(super) fn finish_all(&mut self, app: AppId, until: Nanos) {
        let keys: Vec<SocketKey> = self
            .open
            .range((app, SlotId(0), Generation(0))..=(app, SlotId(u32::MAX), Generation(u32::MAX)))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.finish(key, until);
        }
    }

    /// Gives back what is due.
    pub(super) fn tend(&mut self, now: Nanos, claims: &mut Claims, descriptors: &mut Descriptors) {
        while let Some(&first) = self.leaving.keys().next()
            && first.0 <= now
        {
            self.remove_leaving(first, claims, descriptors);
        }
        while self.leaving.len() > LEAVING_MAX {
            let Some(first) = self.first_of_most() else { return };
            self.remove_leaving(first, claims, descriptors);
        }
    }

    fn first_leaving_of(&self, uid: u32) -> Option<(Nanos, u64)> {
        self.leaving_of.get(&uid)?.first().copied()
    }

    fn remove_leaving(
        &mut self,
        at: (Nanos, u64),
        claims: &mut Claims,
        descriptors: &mut Descriptors,
    ) {
        let Some(hold) = self.leaving.remove(&at) else { return };
        let Hold { uid, ends, is_automatic, guard } = hold;
        if let Some(of) = self.leaving_of.get_mut(&uid) {
            of.remove(&at);
            if of.is_empty() {
                self.leaving_of.remove(&uid);
            }
        }
        self.names.remove(&ends);
        self.flows.give_back(uid, 1);
        if is_automatic && let Some((first, count)) = self.chosen.get_mut(&ends.0) {
            *count -= 1;
            if *count == 0 {
                self.ports.give_back(*first, 1);
                self.chosen.remove(&ends.0);
            }
        }
        if guard.is_some_and(|guard| guard.give_up(descriptors)) {
            self.guards.remove(&ends.0);
        }
        claims.remove_flow(flow(ends));
    }

    /// When the next one is due.
    pub(super) fn next_deadline(&self) -> Nanos {
        self.leaving.first_key_value().map_or(Nanos::FAR_FUTURE, |((until, _), _)| *until)
    }
}

#[cfg(test)]
mod tests;
