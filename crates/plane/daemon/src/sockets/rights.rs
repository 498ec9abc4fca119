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
use sys::SysError;
use sys::socket_owner::{self, Owner, Transport};

use super::examine::Examined;
use super::names::SlotKey;

/// Time between two checks.
const CHECK_EVERY: Nanos = Nanos::from_millis(250);

/// The loopback interface of every network namespace.
pub(super) const LOOPBACK: u32 = 1;

/// Who has a right to an address, as the kernel saw it when a socket was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    cookie: u64,
    /// The user that made it.
    user: u32,
    /// SO_REUSEPORT: others may have it, too, if this user made them. The kernel lets in no
    /// other's.
    shared_by: Option<u32>,
}

impl Holder {
    pub(super) fn of(examined: &Examined) -> Self {
        let shared_by = examined.shares_port.then_some(examined.owner);
        Self { cookie: examined.cookie, user: examined.owner, shared_by }
    }

    /// The user that made its socket.
    pub(super) fn user(self) -> u32 {
        self.user
    }

    /// Its SO_COOKIE.
    pub(super) fn cookie(self) -> u64 {
        self.cookie
    }

    /// One that shares its port with nobody.
    #[cfg(test)]
    pub(super) fn alone(cookie: u64, user: u32) -> Self {
        Self { cookie, user, shared_by: None }
    }

    /// One whose user may have others at the same port.
    #[cfg(test)]
    pub(super) fn sharing(cookie: u64, user: u32) -> Self {
        Self { cookie, user, shared_by: Some(user) }
    }

    pub(super) fn is(self, owner: Owner) -> bool {
        owner.cookie == self.cookie || self.shares_with(owner.uid)
    }

    /// Whether that user may have others at the same port.
    pub(super) fn shares_with(self, user: u32) -> bool {
        self.shared_by == Some(user)
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
    pub(super) alone: Alone,
}

/// What is one application's alone, in packet mode, and checked as well.
#[derive(Debug)]
pub(super) struct Alone {
    /// UDP ports among it.
    pub(super) ports: BTreeSet<u16>,
    /// The next check begins with that one of them.
    pub(super) next: usize,
    /// When it is due, if there is any.
    pub(super) look_at: Nanos,
}

impl Alone {
    /// Whether a check is due; if so the next one is due a while later.
    pub(super) fn is_due(&mut self, has_any: bool, now: Nanos) -> bool {
        if !has_any {
            *self = Self::default();
            return false;
        }
        let is_due = self.look_at == Nanos::FAR_FUTURE || now >= self.look_at;
        if is_due {
            self.look_at = now + CHECK_EVERY;
        }
        is_due
    }
}

impl Default for Alone {
    fn default() -> Self {
        Self { ports: BTreeSet::new(), next: 0, look_at: Nanos::FAR_FUTURE }
    }
}

impl Rights {
    pub(super) fn new(interfaces: impl IntoIterator<Item = u32>) -> Self {
        let interfaces: BTreeSet<u32> = interfaces.into_iter().collect();
        let interfaces = interfaces.into_iter().collect();
        let (watched, alone) = (BTreeSet::new(), Alone::default());
        Self { interfaces, watched, last: None, look_at: Nanos::ZERO, alone }
    }

    /// From now on the right of the socket at `place` is checked.
    pub(super) fn watch(&mut self, place: SlotKey) {
        self.watched.insert(place);
    }

    /// When the next check is due.
    pub(super) fn next_deadline(&self) -> Nanos {
        self.next_check().min(self.alone.look_at)
    }

    fn next_check(&self) -> Nanos {
        if self.watched.is_empty() { Nanos::FAR_FUTURE } else { self.look_at }
    }

    /// An interface of ours has another number now.
    pub(super) fn renumber(&mut self, from: u32, to: u32) {
        self.interfaces.iter_mut().filter(|number| **number == from).for_each(|at| *at = to);
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

    /// Interfaces that each address is asked about at.
    pub(super) fn interface_count(&self) -> usize {
        self.interfaces.len()
    }

    /// Sockets whose right is checked.
    pub(super) fn watched(&self) -> impl Iterator<Item = SlotKey> {
        self.watched.iter().copied()
    }

    /// The right of the socket at `place` is checked no more.
    pub(super) fn forget(&mut self, place: SlotKey) {
        self.watched.remove(&place);
    }

    /// Whether a check is due; if so the next one is due a while later.
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.next_check();
        if is_due {
            self.look_at = now + CHECK_EVERY;
        }
        is_due
    }

    /// The next check begins behind `place`.
    pub(super) fn stop_at(&mut self, place: SlotKey) {
        self.last = Some(place);
    }

    /// The next ones to be looked at, each once.
    pub(super) fn next(&mut self, count: usize) -> Vec<SlotKey> {
        let places: Vec<SlotKey> = self.behind(self.last).take(count).collect();
        self.last = places.last().copied();
        places
    }

    /// All of them once, those behind `last` first.
    fn behind(&self, last: Option<SlotKey>) -> impl Iterator<Item = SlotKey> {
        let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.watched.range((behind, Bound::Unbounded));
        rest.chain(self.watched.iter()).take(self.watched.len()).copied()
    }
}
