//! What is left of listeners that have ended: what workers still hold, and addresses of which
//! accepted connections live on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::Nanos;
use port::xdp::Protocol;
use shm::sockets::{Backlog, Kind};
use stack::{AppSockets, Command};

use super::guards::destination;
use super::records::Listener;
use super::table::SocketTable;
use crate::attach_server_counters::AttachServerEvent;

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
    addresses: BTreeMap<(u16, SocketAddr), Left>,
}

/// What accepted connections may still need an address for.
struct Left {
    look_at: Nanos,
    streams: Arc<AppSockets>,
    uid: u32,
}

struct Retiring {
    streams: Arc<AppSockets>,
    slot: u32,
    backlog: Arc<Backlog>,
    look_at: Nanos,
}

impl Lingering {
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

impl SocketTable {
    /// A listener has ended at `slot`: workers are told already.
    pub(super) fn linger(
        &mut self,
        streams: Arc<AppSockets>,
        uid: u32,
        slot: u32,
        listener: Listener,
        now: Nanos,
    ) {
        for address in listener.addresses {
            let left = Left { look_at: now + LINGER_EVERY, streams: Arc::clone(&streams), uid };
            let earlier = self.lingering.addresses.insert((streams.app, address), left);
            if earlier.is_some() {
                self.released.push(destination(Protocol::Tcp, address));
            }
        }
        let (backlog, look_at) = (listener.backlog, now + RETIRE_EVERY);
        self.lingering.retiring.push(Retiring { streams, slot, backlog, look_at });
    }

    /// Takes back what workers have let go of.
    pub(super) fn tend_lingering(&mut self, now: Nanos) {
        for mut retiring in std::mem::take(&mut self.lingering.retiring) {
            if retiring.look_at > now {
                self.lingering.retiring.push(retiring);
                continue;
            }
            match Arc::try_unwrap(retiring.backlog) {
                Ok(backlog) => self.retire(&retiring.streams, retiring.slot, backlog),
                Err(held) => {
                    retiring.backlog = held;
                    retiring.look_at = now + RETIRE_EVERY;
                    self.lingering.retiring.push(retiring);
                }
            }
        }
        let mut addresses = std::mem::take(&mut self.lingering.addresses);
        addresses.retain(|(_, address), left| {
            if left.look_at > now {
                return true;
            }
            left.look_at = now + LINGER_EVERY;
            let is_needed = has_connections_at(&left.streams, *address);
            // An application can keep its connections, and say that it has some, for as long as it
            // likes. The port is the kernel's to give: whoever has it now must not be silenced.
            let is_anothers = is_needed && self.is_anothers(*address, left.uid);
            if is_anothers {
                self.table_config.counters.count(AttachServerEvent::PortsYielded);
            }
            if !is_needed || is_anothers {
                self.released.push(destination(Protocol::Tcp, *address));
            }
            is_needed && !is_anothers
        });
        self.lingering.addresses = addresses;
    }

    /// Gives back all addresses of listeners that have ended, whoever may still need them.
    pub(super) fn release_lingering(&mut self) {
        let addresses = std::mem::take(&mut self.lingering.addresses).into_keys();
        self.released.extend(addresses.map(|(_, at)| destination(Protocol::Tcp, at)));
    }

    fn retire(&mut self, streams: &AppSockets, slot: u32, backlog: Backlog) {
        // The ring is our own, each place looked at once: what the application says about it is not
        // asked. What it has written there itself names sockets of its own only.
        for entry in backlog.waiting(streams.server.memory()) {
            self.close_unaccepted(streams, entry.region, entry.slot);
        }
        streams.server.heap().take_back(backlog.into_ring());
        streams.server.take_back_slot(slot);
    }

    fn close_unaccepted(&mut self, streams: &AppSockets, region: u32, slot: u32) {
        if region != streams.region {
            return self.end_local((region, slot), streams.app);
        }
        if !streams.server.is_taken(slot) || self.records.get((region, slot)).is_some() {
            return;
        }
        let generation = streams.server.generation(slot);
        let app = streams.app;
        self.table_config.command_queue.command(&Command::Close {
            app,
            slot,
            generation,
            is_abort: true,
        });
    }
}

/// Whether accepted connections of an application still have that address.
fn has_connections_at(streams: &AppSockets, address: SocketAddr) -> bool {
    let server = &streams.server;
    let slots = server.memory().sizes().slots;
    let mut left = server.slots_taken();
    for slot in 0..slots {
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
