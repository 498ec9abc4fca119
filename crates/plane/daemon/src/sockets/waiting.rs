//! Connections and datagrams that wait for the link address of their next hop.

use std::net::{IpAddr, SocketAddr};

use base::Nanos;
use tcp::FlowOptions;

use super::guards::SocketKey;
use super::routes::Hop;
use super::shares::Shares;

/// Destinations of datagrams that wait at once, at most: each is looked at again and again.
const UNRESOLVED_MAX: usize = 4096;

/// Everything that waits for a link address.
pub(super) struct Waiting {
    pub(super) connects: Vec<Pending>,
    datagrams: Vec<Unresolved>,
    /// Whose these are: a user's programs choose where they send to.
    datagrams_of: Shares,
}

impl Default for Waiting {
    fn default() -> Self {
        let datagrams_of = Shares::new(UNRESOLVED_MAX);
        Self { connects: Vec::new(), datagrams: Vec::new(), datagrams_of }
    }
}

/// A connection whose first segment cannot leave yet.
pub(super) struct Pending {
    pub(super) app: u16,
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) options: FlowOptions,
    pub(super) hop: Hop,
    pub(super) look_at: Nanos,
    pub(super) until: Nanos,
}

/// A destination of datagrams whose next hop has been asked for its link address.
pub(super) struct Unresolved {
    pub(super) remote: IpAddr,
    /// The user whose program wanted to send there first.
    pub(super) user: u32,
    pub(super) hop: Hop,
    pub(super) look_at: Nanos,
    pub(super) until: Nanos,
}

impl Pending {
    pub(super) fn key(&self) -> SocketKey {
        (self.app, self.slot, self.generation)
    }
}

impl Waiting {
    /// Whether datagrams to an address wait already.
    pub(super) fn has_datagrams_to(&self, remote: IpAddr) -> bool {
        self.datagrams.iter().any(|one| one.remote == remote)
    }

    /// Whether one more destination of a user's datagrams may wait.
    pub(super) fn has_room(&self, user: u32) -> bool {
        self.datagrams_of.has_room(user, 1)
    }

    pub(super) fn add_datagrams(&mut self, one: Unresolved) {
        self.datagrams_of.take(one.user, 1);
        self.datagrams.push(one);
    }

    /// Takes those destinations whose next look is due.
    pub(super) fn take_due_datagrams(&mut self, now: Nanos) -> Vec<Unresolved> {
        let due: Vec<_> = self.datagrams.extract_if(.., |one| one.look_at <= now).collect();
        due.iter().for_each(|one| self.datagrams_of.give_back(one.user, 1));
        due
    }

    /// When to look next.
    pub(super) fn next_deadline(&self) -> Nanos {
        let connects = self.connects.iter().map(|one| one.look_at);
        let datagrams = self.datagrams.iter().map(|one| one.look_at);
        connects.chain(datagrams).min().unwrap_or(Nanos::FAR_FUTURE)
    }
}
