//! Connections and datagrams that wait for the link address of their next hop.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use base::{AppId, Generation, Nanos, SlotId};
use tcp::FlowOptions;

use super::guards::SocketKey;
use super::routes::Hop;
use super::shares::Shares;
use super::wait_budget::WaitBudget;

/// Destinations of datagrams that wait at once, at most: each is looked at again and again. Workers
/// ask for as many as programs send to, so none of what is done for one looks through the others.
const UNRESOLVED_MAX: usize = 4096;

/// Everything that waits for a link address, and how long the attach server may wait for workers.
pub(super) struct Waiting {
    pub(super) connects: Vec<Pending>,
    pub(super) wait_budget: WaitBudget,
    datagrams: BTreeMap<IpAddr, Unresolved>,
    /// Each of them, by when it is looked at next.
    datagrams_due: BTreeSet<(Nanos, IpAddr)>,
    /// Whose these are: a user's programs choose where they send to.
    datagrams_of: Shares,
}

impl Default for Waiting {
    fn default() -> Self {
        let datagrams_of = Shares::new(UNRESOLVED_MAX);
        let (datagrams, datagrams_due) = (BTreeMap::new(), BTreeSet::new());
        let (connects, wait_budget) = (Vec::new(), WaitBudget::default());
        Self { connects, wait_budget, datagrams, datagrams_due, datagrams_of }
    }
}

/// A connection whose first segment cannot leave yet.
pub(super) struct Pending {
    pub(super) app: AppId,
    pub(super) slot: SlotId,
    pub(super) generation: Generation,
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
        self.datagrams.contains_key(&remote)
    }

    /// Whether one more destination of a user's datagrams may wait.
    pub(super) fn has_room(&self, user: u32) -> bool {
        self.datagrams_of.has_room(user, 1)
    }

    /// Adds a destination that does not wait yet.
    pub(super) fn add_datagrams(&mut self, one: Unresolved) {
        debug_assert!(!self.has_datagrams_to(one.remote), "it would be counted twice");
        self.datagrams_of.take(one.user, 1);
        self.datagrams_due.insert((one.look_at, one.remote));
        self.datagrams.insert(one.remote, one);
    }

    /// Takes those destinations whose next look is due.
    pub(super) fn take_due_datagrams(&mut self, now: Nanos) -> Vec<Unresolved> {
        let mut due = Vec::new();
        while let Some(&(look_at, remote)) = self.datagrams_due.first()
            && look_at <= now
        {
            self.datagrams_due.pop_first();
            due.extend(self.datagrams.remove(&remote));
        }
        due.iter().for_each(|one| self.datagrams_of.give_back(one.user, 1));
        due
    }

    /// When to look next.
    pub(super) fn next_deadline(&self) -> Nanos {
        let connects = self.connects.iter().map(|one| one.look_at);
        let datagrams = self.datagrams_due.first().map(|(look_at, _)| *look_at);
        connects.chain(datagrams).min().unwrap_or(Nanos::FAR_FUTURE)
    }
}
