//! Datagrams that wait for their next hop to be found.
//!
//! They are held aside, as Linux holds them at the neighbour's entry, and not in the ring of their
//! socket: one to an address where nobody answers must not keep those behind it. What is held has
//! bounds, for the addresses are whatever programs and their peers make up: in all, for one address
//! and for one user, which therefore never keeps the others from holding any.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use base::Nanos;
use shm::sockets::Record;

use crate::datagrams::Datagrams;

/// Datagrams of a worker that wait, at most.
const HELD_MAX: usize = 1024;

/// Datagrams of one user that wait, at most; and when three quarters of all places are taken:
/// the last to come finds that many.
const HELD_OF_USER_MAX: usize = 256;
const HELD_OF_USER_FLOOR: usize = 16;

/// Datagrams to one address that wait, at most: about what Linux lets wait (`unres_qlen_bytes` of
/// 212,992).
const HELD_FOR_ADDRESS_MAX: usize = 128;

/// A datagram is tried again after this time.
const RETRY_EVERY: Nanos = Nanos::from_millis(5);

/// A datagram is given up after this time: what the kernel takes to find that nobody answers, and a
/// little more.
const HOLD_FOR: Nanos = Nanos::from_secs(4);

/// A datagram that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) socket: Arc<Datagrams>,
    /// To whom it goes, which it says, and how.
    pub(super) record: Record,
    pub(super) payload: Box<[u8]>,
    /// When it is given up.
    pub(super) until: Nanos,
}

impl Held {
    fn is_to(&self, remote: IpAddr) -> bool {
        self.record.remote.is_some_and(|to| to.ip() == remote)
    }
}

/// All datagrams of a worker that wait, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    held: VecDeque<Held>,
    retry_at: Nanos,
}

impl Unresolved {
    /// Holds a datagram that says to whom it goes, and has `payload` make a copy of what it
    /// carries; false: it is dropped, because too many wait already (nothing is copied then), or
    /// because there is no copy.
    pub(super) fn hold(
        &mut self,
        socket: &Arc<Datagrams>,
        record: Record,
        now: Nanos,
        payload: impl FnOnce() -> Option<Box<[u8]>>,
    ) -> bool {
        let Some(remote) = record.remote.map(|remote| remote.ip()) else { return false };
        let user = socket.app.user;
        let of_user = self.held.iter().filter(|held| held.socket.app.user == user).count();
        let is_crowded = self.held.len() >= HELD_MAX / 4 * 3;
        let of_user_max = if is_crowded { HELD_OF_USER_FLOOR } else { HELD_OF_USER_MAX };
        let for_address = self.held.iter().filter(|held| held.is_to(remote)).count();
        if self.held.len() >= HELD_MAX
            || of_user >= of_user_max
            || for_address >= HELD_FOR_ADDRESS_MAX
        {
            return false;
        }
        let Some(payload) = payload() else { return false };
        if self.held.is_empty() {
            self.retry_at = now + RETRY_EVERY;
        }
        let (socket, until) = (Arc::clone(socket), now + HOLD_FOR);
        self.held.push_back(Held { socket, record, payload, until });
        true
    }

    /// Whether datagrams to that address wait.
    pub(super) fn waits_for(&self, remote: IpAddr) -> bool {
        self.held.iter().any(|held| held.is_to(remote))
    }

    /// Something new is known: all are tried in the next turn.
    pub(super) fn hurry(&mut self) {
        self.retry_at = Nanos::ZERO;
    }

    /// Offers each to `leaves`, if it is time, and forgets those for which it says true.
    pub(super) fn retry(&mut self, now: Nanos, mut leaves: impl FnMut(&Held) -> bool) {
        if self.held.is_empty() || now < self.retry_at {
            return;
        }
        self.retry_at = now + RETRY_EVERY;
        self.held.retain(|held| !leaves(held));
    }

    /// Takes those to `remote` out: it cannot be reached.
    pub(super) fn take(&mut self, remote: IpAddr) -> Vec<Held> {
        let (lost, kept) = self.held.drain(..).partition(|held| held.is_to(remote));
        self.held = kept;
        Vec::from(lost)
    }

    /// When they are tried again; none: nothing waits.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        (!self.held.is_empty()).then_some(self.retry_at)
    }
}
