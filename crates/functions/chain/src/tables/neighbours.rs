//! Link addresses: taken from the kernel, and asked of it for next hops that packets want.

use super::Tables;
use super::asks::ASKS_MAX;
use crate::error::ChainError;
use base::PortId;
use std::collections::BTreeSet;
use std::net::IpAddr;
use sys::neighbour::{self, Neighbour, NeighbourState};

impl Tables {
    pub(super) fn dump_neighbours(&mut self) -> Result<(), ChainError> {
        let mut gone: BTreeSet<_> = self.known.keys().copied().collect();
        let mut found = Vec::new();
        neighbour::dump(|interface, address, known| {
            if let Some(port) = self.ports.with_index(interface) {
                found.push((port, address, known));
            }
        })?;
        for (port, address, known) in found {
            gone.remove(&(port, address));
            self.set_neighbour(port, address, Some(known));
        }
        for (port, address) in gone {
            self.set_neighbour(port, address, None);
        }
        Ok(())
    }

    pub(super) fn set_neighbour(
        &mut self,
        port: PortId,
        address: IpAddr,
        known: Option<Neighbour>,
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
            self.rib.set_neighbour(port, address, after, &mut self.steps);
        }
    }

    pub(super) fn ask(&mut self, port: PortId, address: IpAddr) {
        let Some(interface) = self.ports.interface(port) else { return };
        self.figures.neighbours_asked += 1;
        // What fails here (its table is full, the interface has gone) shows in the packets that are
        // counted as having no neighbour.
        let is_asked = neighbour::resolve(interface.index, address).is_ok();
        let known = self.known.get(&(port, address)).copied();
        if let Some(failed) = known.filter(|known| known.state == NeighbourState::Failed)
            && is_asked
        {
            // The kernel does not say that it asks again, only what comes of it.
            let asked = Neighbour { state: NeighbourState::Incomplete, ..failed };
            self.set_neighbour(port, address, Some(asked));
        }
    }

    /// Packets that it does not see confirm nothing to the kernel: it is told which neighbours are
    /// in use, asks those that have grown stale, and says when one has another address or none.
    pub(super) fn refresh(&mut self) {
        let stale = self.known.iter().filter(|(_, known)| known.state == NeighbourState::Stale);
        let stale: Vec<_> = stale.map(|(key, _)| *key).take(ASKS_MAX).collect();
        for (port, address) in stale {
            self.ask(port, address);
        }
    }
}
