//! Connections and datagrams that wait for the link address of their next hop.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use base::{AppId, Generation, Nanos, SlotId};
use tcp::FlowOptions;

use super::guards::SocketKey;
use super::reach::Cause;
use super::routes::Hop;
use super::shares::Shares;
use super::wait_budget::WaitBudget;

/// Destinations of datagrams that wait at once, at most, and as many that are sent to in answer:
/// each is looked at again and again. Workers ask for as many as programs send to, so none of what
/// is done for one looks through the others.
const UNRESOLVED_MAX: usize = 4096;

/// Everything that waits for a link address, and how long the attach server may wait for workers.
pub(super) struct Waiting {
    pub(super) connects: Vec<Pending>,
    pub(super) wait_budget: WaitBudget,
    datagrams: BTreeMap<IpAddr, Unresolved>,
    /// Each of them, by when it is looked at next.
    datagrams_due: BTreeSet<(Nanos, IpAddr)>,
    /// Whose these are: a user's programs choose where they send to, and strangers whom they
    /// answer.
    sent_of: Shares,
    answered_of: Shares,
}

impl Default for Waiting {
    fn default() -> Self {
        let [sent_of, answered_of] = [(); 2].map(|()| Shares::new(UNRESOLVED_MAX));
        let (datagrams, datagrams_due) = (BTreeMap::new(), BTreeSet::new());
        let (connects, wait_budget) = (Vec::new(), WaitBudget::default());
        Self { connects, wait_budget, datagrams, datagrams_due, sent_of, answered_of }
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
    /// The user whose program wanted to send there first, and why.
    pub(super) whose: (u32, Cause),
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
    /// Whether datagrams to an address wait already. For those that are sent there no place counts
    /// that was taken for answers: a stranger may have chosen it, and all others with it.
    pub(super) fn has_datagrams_to(&self, remote: IpAddr, cause: Cause) -> bool {
        let waits = self.datagrams.get(&remote);
        waits.is_some_and(|one| one.whose.1 == cause || cause == Cause::Answer)
    }

    /// Whether one more destination of a user's datagrams may wait.
    pub(super) fn has_room(&mut self, (user, cause): (u32, Cause)) -> bool {
        self.shares(cause).has_room(user, 1)
    }

    fn shares(&mut self, cause: Cause) -> &mut Shares {
        match cause {
            Cause::Answer => &mut self.answered_of,
            Cause::Connect | Cause::Send => &mut self.sent_of,
        }
    }

    /// Adds a destination; it takes the place of one that waits for answers.
    pub(super) fn add_datagrams(&mut self, one: Unresolved) {
        if let Some(before) = self.datagrams.remove(&one.remote) {
            self.datagrams_due.remove(&(before.look_at, before.remote));
            self.give_back(before.whose);
        }
        let (user, cause) = one.whose;
        self.shares(cause).take(user, 1);
        self.datagrams_due.insert((one.look_at, one.remote));
        self.datagrams.insert(one.remote, one);
    }

    fn give_back(&mut self, (user, cause): (u32, Cause)) {
        self.shares(cause).give_back(user, 1);
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
        due.iter().for_each(|one| self.give_back(one.whose));
        due
    }

    /// When to look next.
    pub(super) fn next_deadline(&self) -> Nanos {
        let connects = self.connects.iter().map(|one| one.look_at);
        let datagrams = self.datagrams_due.first().map(|(look_at, _)| *look_at);
        connects.chain(datagrams).min().unwrap_or(Nanos::FAR_FUTURE)
    }
}
