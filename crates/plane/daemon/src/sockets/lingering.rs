//! What is left of listeners that have ended: what workers still hold, and addresses of which
//! accepted connections live on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::{AppId, Nanos, SlotId};
use shm::sockets::{Backlog, Kind};
use stack::AppSockets;

use super::records::Listener;

/// Time between two looks whether workers have let go of a listener.
const RETIRE_EVERY: Nanos = Nanos::from_millis(2);

/// Time between two looks whether accepted connections still need a listener's address.
const LINGER_EVERY: Nanos = Nanos::from_secs(1);

/// What is left of listeners that have ended.
#[derive(Default)]
pub(super) struct Lingering {
    /// Workers may still hold these.
    retiring: Vec<Retiring>,
    /// Addresses of which accepted connections live on, by whose they are.
    addresses: BTreeMap<(AppId, SocketAddr), Left>,
}

/// What accepted connections may still need an address for.
struct Left {
    look_at: Nanos,
    streams: Arc<AppSockets>,
    uid: u32,
}

struct Retiring {
    streams: Arc<AppSockets>,
    slot: SlotId,
    backlog: Arc<Backlog>,
    look_at: Nanos,
}

/// A listener's queue that no worker holds any more.
pub(super) struct Retired {
    pub(super) streams: Arc<AppSockets>,
    pub(super) slot: SlotId,
    pub(super) backlog: Backlog,
}

impl Lingering {
    /// A listener of a user's application has ended at `slot`: workers are told already. Returns
    /// the addresses that an earlier listener of the application had left, which are taken twice.
    pub(super) fn add(
        &mut self,
        streams: &Arc<AppSockets>,
        uid: u32,
        slot: SlotId,
        listener: Listener,
        now: Nanos,
    ) -> Vec<SocketAddr> {
        let (backlog, look_at) = (listener.backlog, now + RETIRE_EVERY);
        self.retiring.push(Retiring { streams: Arc::clone(streams), slot, backlog, look_at });
        let mut twice = Vec::new();
        for address in listener.addresses {
            let left = Left { look_at: now + LINGER_EVERY, streams: Arc::clone(streams), uid };
            if self.addresses.insert((streams.app, address), left).is_some() {
                twice.push(address);
            }
        }
        twice
    }

    /// Takes the queues that workers have let go of.
    pub(super) fn take_retired(&mut self, now: Nanos) -> Vec<Retired> {
        let mut retired = Vec::new();
        for mut retiring in std::mem::take(&mut self.retiring) {
            if retiring.look_at > now {
                self.retiring.push(retiring);
                continue;
            }
            match Arc::try_unwrap(retiring.backlog) {
                Ok(backlog) => {
                    let Retiring { streams, slot, .. } = retiring;
                    retired.push(Retired { streams, slot, backlog });
                }
                Err(held) => {
                    retiring.backlog = held;
                    retiring.look_at = now + RETIRE_EVERY;
                    self.retiring.push(retiring);
                }
            }
        }
        retired
    }

    /// Takes the addresses that no accepted connection needs any more, or that `yields` to another
    /// user: it is asked with the address and the user whose connections need it.
    pub(super) fn take_unneeded(
        &mut self,
        yields: impl Fn(SocketAddr, u32) -> bool,
        now: Nanos,
    ) -> Vec<SocketAddr> {
        let due = self.addresses.extract_if(.., |_, left| left.look_at <= now);
        let mut unneeded = Vec::new();
        let mut needed = Vec::new();
        for ((app, address), mut left) in due {
            left.look_at = now + LINGER_EVERY;
            match has_connections_at(&left.streams, address) && !yields(address, left.uid) {
                true => needed.push(((app, address), left)),
                false => unneeded.push(address),
            }
        }
        self.addresses.extend(needed);
        unneeded
    }

    /// Takes all addresses, whoever may still need them.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = SocketAddr> {
        std::mem::take(&mut self.addresses).into_keys().map(|(_, address)| address)
    }

    /// Addresses that are still taken for a user's connections.
    pub(super) fn count_of(&self, uid: u32) -> usize {
        self.addresses.values().filter(|left| left.uid == uid).count()
    }

    /// When to look again.
    pub(super) fn next_deadline(&self) -> Nanos {
        let retiring = self.retiring.iter().map(|retiring| retiring.look_at);
        let addresses = self.addresses.values().map(|left| left.look_at);
        retiring.chain(addresses).min().unwrap_or(Nanos::FAR_FUTURE)
    }
}

/// Whether accepted connections of an application still have that address.
fn has_connections_at(streams: &AppSockets, address: SocketAddr) -> bool {
    let server = &streams.server;
    let slots = server.memory().sizes().slots;
    let mut left = server.slots_taken();
    for slot in (0..slots).map(SlotId) {
        if left == 0 {
            return false;
        }
        if !server.is_taken(slot) {
            continue;
        }
        left -= 1;
        let words = server.memory().slot(slot);
        if words.is_some_and(|words| {
            words.state().kind() == Kind::Stream && words.local.get() == Some(address)
        }) {
            return true;
        }
    }
    false
}
