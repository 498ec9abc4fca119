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
    /// Those of them for which the router's tables had no room; empty but in a flood.
    withheld: BTreeSet<(PortId, IpAddr)>,
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
        let before = match known {
            Some(known) => self.known.insert(key, known),
            None => self.known.remove(&key),
        };
        let (before, after) = (before.and_then(as_function), known.and_then(as_function));
        if before == after {
            return;
        }
        if table.rib.set_neighbour(port, address, after, &mut table.steps) {
            self.withheld.remove(&key);
        } else {
            self.withheld.insert(key);
        }
        if after.is_none() {
            self.let_in(table);
        }
    }

    /// One has gone: the first of those that wait for room has its place.
    fn let_in(&mut self, table: &mut Table) {
        let Some(key) = self.withheld.pop_first() else { return };
        let known = self.known.get(&key).copied().and_then(as_function);
        if !table.rib.set_neighbour(key.0, key.1, known, &mut table.steps) {
            self.withheld.insert(key);
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

/// A neighbour as routers know it; nothing while it is asked for.
fn as_function(known: Neighbour) -> Option<calisto_nf::Neighbour> {
    match (known.usable_mac(), known.state) {
        (Some(mac), _) => Some(calisto_nf::Neighbour::At(mac)),
        (None, NeighbourState::Failed) => Some(calisto_nf::Neighbour::Failed),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::WhenFull;

    #[test]
    fn a_neighbour_without_room_gets_the_place_of_one_that_goes() {
        const PORT: PortId = PortId(0);
        let mut table = Table::new(WhenFull::Drop);
        let mut all = Neighbourhood::default();
        let address = |number: u32| IpAddr::from((10_u32 << 24 | number).to_be_bytes());
        let mut set = |number: u32, mac: Option<[u8; 6]>, table: &mut Table| {
            let state = NeighbourState::Fresh;
            let known = mac.map(|mac| Neighbour { mac: Some(mac), state });
            all.set(PORT, address(number), known, table);
            table.steps.clear();
        };
        let most = calisto_nf::fib::NEIGHBOURS as u32;
        for number in 0..most + 2 {
            set(number, Some([2; 6]), &mut table);
        }
        let is_there = |number: u32, table: &Table| table.rib.neighbour(PORT, address(number));
        assert!(is_there(most - 1, &table).is_some());
        assert!(is_there(most, &table).is_none() && is_there(most + 1, &table).is_none());
        // It moves while it waits.
        set(most, Some([4; 6]), &mut table);
        set(7, None, &mut table);
        assert_eq!(is_there(most, &table), Some(calisto_nf::Neighbour::At([4; 6])));
        assert!(is_there(7, &table).is_none() && is_there(most + 1, &table).is_none());
        // One that goes while it waits leaves no place behind.
        set(most + 1, None, &mut table);
        set(8, None, &mut table);
        assert!(is_there(most + 1, &table).is_none());
    }
}
