//! Whose by the kernel is what an application in packet mode has for itself alone.
//!
//! Nothing of it is bound there, so another user may come at any time: the kernel then gives the
//! port to that one, and so do we. Root may have what it likes, and is told.

use std::net::{IpAddr, SocketAddr};

use base::Nanos;
use port::xdp::{Destination, Protocol};
use sys::clock;
use sys::socket_owner::{self, Owner, Transport};

use super::super::super::connected::LOOK_MAX;
use super::super::super::shares::ROOT;
use super::super::SocketTable;
use super::QUESTIONS_MAX;
use crate::attach_server_counters::AttachServerEvent;
use crate::log;

impl SocketTable {
    /// Who else the kernel would give what comes to `destination` by our interfaces, so that an
    /// application of `uid` may not have it: as the beginning of a sentence.
    pub(crate) fn others_at(&mut self, destination: Destination, uid: u32) -> Option<String> {
        let others = match destination.port {
            Some(port) => {
                let owner = self.owner_other_than(destination, port, uid);
                let named = owner.map(|other| format!("user {other} has a socket of the kernel"));
                named.or_else(|| self.connected_others_at(destination, uid))
            }
            None => self.open_others_at(destination, uid),
        };
        let others = others?;
        if uid == ROOT && destination.port.is_none() {
            tracing::warn!(
                target: log::SOCKETS,
                "{others}, and what comes there is an application of root's in packet mode"
            );
            return None;
        }
        Some(others)
    }

    /// Another user than `uid` who has a listener or a UDP socket at the kernel that gets what
    /// comes to `destination`.
    fn owner_other_than(&self, destination: Destination, port: u16, uid: u32) -> Option<u32> {
        let transport = transport(destination);
        let owners = self.own_addresses(&destination).iter().flat_map(|address| {
            self.claimed.rights.owners(transport, SocketAddr::new(*address, port))
        });
        let is_anothers =
            |owner: &Owner| owner.uid != uid && (owner.is_listener || transport == Transport::Udp);
        owners.filter(is_anothers).map(|owner| owner.uid).next()
    }

    /// Others at all ports of a destination.
    fn open_others_at(&mut self, destination: Destination, uid: u32) -> Option<String> {
        let left = self.waiting.wait_budget.left(uid, clock::now()).min(LOOK_MAX);
        if left == Nanos::ZERO {
            return Some(UNKNOWN.to_owned());
        }
        let (had, mut found) = (clock::of_thread(), None);
        let told = socket_owner::each_open(transport(destination), left, |at, owner| {
            let own = self.own_addresses(&destination);
            let is_here = at.ip().is_unspecified() || own.contains(&at.ip());
            if is_here && owner.uid != uid {
                found.get_or_insert((owner.uid, at));
            }
        });
        self.waiting.wait_budget.note(uid, clock::of_thread().since(had));
        match (found, told) {
            (Some((other, at)), _) => {
                Some(format!("user {other} has a socket of the kernel ({at})"))
            }
            (None, Ok(true)) => self.connected_others_at(destination, uid),
            (None, Ok(false) | Err(_)) => Some(UNKNOWN.to_owned()),
        }
    }

    fn connected_others_at(&mut self, destination: Destination, uid: u32) -> Option<String> {
        let left = self.waiting.wait_budget.left(uid, clock::now()).min(LOOK_MAX);
        if left == Nanos::ZERO {
            return Some(UNKNOWN.to_owned());
        }
        let ports = destination.port.map_or(0..=u16::MAX, |port| port..=port);
        let had = clock::of_thread();
        let found = self.connected_at(transport(destination), ports, left);
        self.waiting.wait_budget.note(uid, clock::of_thread().since(had));
        let Ok(Some(found)) = found else { return Some(UNKNOWN.to_owned()) };
        let own = self.own_addresses(&destination);
        let others = found.iter().find(|(at, owner)| owner.uid != uid && own.contains(&at.ip()));
        others.map(|(at, owner)| {
            format!("user {} has a connected socket of the kernel ({at})", owner.uid)
        })
    }

    /// The addresses of our interfaces that a destination covers.
    fn own_addresses<'a>(&'a self, destination: &'a Destination) -> &'a [IpAddr] {
        match &destination.address {
            Some(address) => std::slice::from_ref(address),
            None => self.network.neighbours.addresses(),
        }
    }

    /// Which of these destinations, each with the user whose application has it for itself, have
    /// become another user's: with that one, if it is known.
    pub(crate) fn lost_alone(
        &mut self,
        held: &[(Destination, u32)],
        now: Nanos,
    ) -> Vec<(Destination, Option<u32>)> {
        // Root's stay: whoever comes to such a port later gets nothing there.
        let held: Vec<_> =
            held.iter().filter(|(at, uid)| *uid != ROOT && at.port.is_some()).collect();
        if !self.claimed.rights.alone.is_due(!held.is_empty(), now) {
            return Vec::new();
        }
        let udp = held.iter().filter(|(at, _)| at.protocol == Protocol::Udp);
        self.claimed.rights.alone.ports = udp.filter_map(|(at, _)| at.port).collect();
        self.check_connected(now);
        let (mut lost, mut questions) = (Vec::new(), 0);
        let first = self.claimed.rights.alone.next % held.len();
        for at in (first..held.len()).chain(0..first) {
            if questions >= QUESTIONS_MAX {
                self.claimed.rights.alone.next = at;
                break;
            }
            let (destination, uid) = *held[at];
            let own = self.own_addresses(&destination);
            questions += own.len() * self.claimed.rights.interface_count();
            let Some(port) = destination.port else { continue };
            let other = self.owner_other_than(destination, port, uid);
            let connected = &self.claimed.connected;
            let has_connected = destination.protocol == Protocol::Udp
                && (connected.is_crowded(port) || connected.has_other_users(uid, port, own));
            if other.is_some() || has_connected {
                self.table_config.counters.count(AttachServerEvent::RightsLost);
                lost.push((destination, other));
            }
        }
        lost
    }
}

/// What is said where nobody knows.
const UNKNOWN: &str = "there are more sockets than could be looked at, perhaps of other users,";

fn transport(destination: Destination) -> Transport {
    match destination.protocol {
        Protocol::Tcp => Transport::Tcp,
        Protocol::Udp => Transport::Udp,
    }
}
