//! What becomes of listeners that have ended.

use std::sync::Arc;

use base::{Nanos, RegionId, SlotId};
use port::xdp::{Destination, Protocol};
use stack::{AppSockets, Command};

use super::super::guards::destination;
use super::super::lingering::Retired;
use super::super::names::SlotKey;
use super::super::records::{Listener, What};
use super::SocketTable;
use crate::apps::overlap;
use crate::attach_server_counters::AttachServerEvent;

impl SocketTable {
    /// A listener has ended at `slot`: workers are told already.
    pub(super) fn linger(
        &mut self,
        streams: &Arc<AppSockets>,
        uid: u32,
        slot: SlotId,
        listener: Listener,
        now: Nanos,
    ) {
        let twice = self.claimed.lingering.add(streams, uid, slot, listener, now);
        let twice = twice.into_iter().map(|address| destination(Protocol::Tcp, address));
        self.claimed.released.extend(twice);
    }

    /// What sockets of programs have at a destination that is theirs: as the beginning of a
    /// sentence.
    pub(crate) fn served_at(&self, destination: Destination) -> &'static str {
        let is_there = |at: Destination| overlap(&at, &destination);
        let is_open = |place: SlotKey| match self.records.get(place).map(|record| &record.what) {
            Some(What::Listener(listener)) => {
                let addresses = listener.addresses.iter();
                addresses.map(|at| self::destination(Protocol::Tcp, *at)).any(is_there)
            }
            Some(What::Datagram(bound)) => bound.destinations.iter().copied().any(is_there),
            _ => false,
        };
        match self.claimed.rights.watched().any(is_open) {
            true => "sockets of programs are served",
            false => "connections are still served that came to a listener of a program",
        }
    }

    /// Takes back what workers have let go of.
    pub(super) fn tend_lingering(&mut self, now: Nanos) {
        for retired in self.claimed.lingering.take_retired(now) {
            self.retire(retired);
        }
        let mut lingering = std::mem::take(&mut self.claimed.lingering);
        let unneeded = lingering.take_unneeded(
            |address, uid| {
                // An application can keep its connections, and say that it has some, for as long
                // as it likes. The port is the kernel's to give: whoever has it now must not be
                // silenced.
                let yields = self.is_anothers(address, uid);
                if yields {
                    self.table_config.counters.count(AttachServerEvent::PortsYielded);
                }
                yields
            },
            now,
        );
        self.claimed.lingering = lingering;
        let unneeded = unneeded.into_iter().map(|address| destination(Protocol::Tcp, address));
        self.claimed.released.extend(unneeded);
    }

    fn retire(&mut self, retired: Retired) {
        let Retired { streams, slot, backlog } = retired;
        // The ring is our own, each place looked at once: what the application says about it is not
        // asked. What it has written there itself names sockets of its own only.
        for entry in backlog.waiting(streams.server.memory()) {
            self.close_unaccepted(&streams, entry.region, entry.slot);
        }
        streams.server.heap().take_back(backlog.into_ring());
        streams.server.take_back_slot(slot);
    }

    fn close_unaccepted(&mut self, streams: &AppSockets, region: RegionId, slot: SlotId) {
        if region != streams.region {
            return self.reset_local((region, slot), streams.app);
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
