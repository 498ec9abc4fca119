//! Link addresses: taken from the kernel, and asked of it for next hops that packets want.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use base::{Nanos, PortId};
use sys::neighbour::{self, Neighbour, NeighbourState};

use super::asks::{ASKS_MAX, Asks};
use super::table::Table;
use crate::error::ChainError;
use crate::ports::Ports;

/// How often the kernel is told which neighbours are in use: it holds one to be fresh for 30 s.
const REFRESH_EVERY: Nanos = Nanos::from_secs(10);

/// What the kernel knows of neighbours.
#[derive(Default)]
pub(super) struct Neighbourhood {
    known: BTreeMap<(PortId, IpAddr), Neighbour>,
    asks: Asks,
    refresh_at: Nanos,
    asked: u64,
}

impl Neighbourhood {
    /// When [`Self::refresh`] is due.
    pub(super) const fn refresh_at(&self) -> Nanos {
        self.refresh_at
    }

    /// Neighbours whose link address is known, and how often one was asked for.
    pub(super) fn counts(&self) -> (usize, u64) {
        let known = self.known.values().filter(|known| known.usable_mac().is_some());
        (known.count(), self.asked)
    }

    /// Asks for those of `gateways` of which nothing is known, so that the first packets need not
    /// wait.
    pub(super) fn ask_ahead(
        &mut self,
        mut gateways: BTreeSet<(PortId, IpAddr)>,
        ports: &Ports,
        table: &mut Table,
    ) {
        gateways.retain(|key| !self.known.contains_key(key));
        for (port, address) in gateways.into_iter().take(ASKS_MAX) {
            self.ask(port, address, ports, table);
        }
    }

    /// Packets wait for this neighbour's link address.
    pub(super) fn want(
        &mut self,
        port: PortId,
        address: IpAddr,
        now: Nanos,
        ports: &Ports,
        table: &mut Table,
    ) {
        if self.asks.allow(port, address, now) {
            self.ask(port, address, ports, table);
        }
    }

    pub(super) fn dump(&mut self, ports: &Ports, table: &mut Table) -> Result<(), ChainError> {
        let mut gone: BTreeSet<_> = self.known.keys().copied().collect();
        let mut found = Vec::new();
        neighbour::dump(|interface, address, known| {
            if let Some(port) = ports.with_index(interface) {
                found.push((port, address, known));
            }
        })?;
        for (port, address, known) in found {
            gone.remove(&(port, address));
            self.set(port, address, Some(known), table);
        }
        for (port, address) in gone {
            self.set(port, address, None, table);
        }
        Ok(())
    }

    pub(super) fn set(
        &mut self,
        port: PortId,
        address: IpAddr,
        known: Option<Neighbour>,
        table: &mut Table,
    ) {
        let key = (port, address);
        let as_function = |known: Neighbour| match (known.usable_mac(), known.state) {
            (Some(mac), _) => Some(calisto_nf::Neighbour::At(mac)),
            (None, NeighbourState::Failed) => Some(calisto_nf::Neighbour::Failed),
            (None, _) => None,
        };
        let before = match known {
            Some(known) => self.known.insert(key, known),
            None => self.known.remove(&key),
        };
        let (before, after) = (before.and_then(as_function), known.and_then(as_function));
        if before != after {
            table.rib.set_neighbour(port, address, after, &mut table.steps);
        }
    }

    fn ask(&mut self, port: PortId, address: IpAddr, ports: &Ports, table: &mut Table) {
        let Some(interface) = ports.interface(port) else { return };
        self.asked += 1;
        // What fails here (its table is full, the interface has gone) shows in the packets that are
        // counted as having no neighbour.
        let is_asked = neighbour::resolve(interface.index, address).is_ok();
        let known = self.known.get(&(port, address)).copied();
        if let Some(failed) = known.filter(|known| known.state == NeighbourState::Failed)
            && is_asked
        {
            // The kernel does not say that it asks again, only what comes of it.
            let asked = Neighbour { state: NeighbourState::Incomplete, ..failed };
            self.set(port, address, Some(asked), table);
        }
    }

    /// Packets that it does not see confirm nothing to the kernel: it is told which neighbours are
    /// in use, asks those that have grown stale, and says when one has another address or none.
    pub(super) fn refresh(&mut self, now: Nanos, ports: &Ports, table: &mut Table) {
        self.refresh_at = now + REFRESH_EVERY;
        let stale = self.known.iter().filter(|(_, known)| known.state == NeighbourState::Stale);
        let stale: Vec<_> = stale.map(|(key, _)| *key).take(ASKS_MAX).collect();
        for (port, address) in stale {
            self.ask(port, address, ports, table);
        }
    }
}
