//! Routes and neighbours as the control side knows them, and the steps that bring them to data
//! threads.
//!
//! Each call changes what is known here and appends the [`FibChange`]s for it; whoever runs the
//! threads gives all of them, in order, to each. [`Rib::fib`] makes the tables of a new thread. A
//! prefix has one route: of several (metrics, protocols, paths) the caller chooses the one in
//! force.

mod blocks;
mod four;
mod hops;
mod six;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use base::PortId;

use crate::Prefix;
use crate::fib::{Fib, FibChange, HopId, Interface, NEIGHBOURS, Neighbour, NextHop};
use four::Routes4;
use hops::Hops;
use six::Routes6;

/// Routes and neighbours.
#[derive(Debug, Default)]
pub struct Rib {
    four: Routes4,
    six: Routes6,
    hops: Hops,
    neighbours: BTreeMap<(PortId, IpAddr), Neighbour>,
    interfaces: BTreeMap<PortId, Interface>,
    own: BTreeSet<IpAddr>,
}

impl Rib {
    /// Knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route, or replaces that of the same prefix, before the first tables are made: without
    /// steps, and so in less time.
    ///
    /// # Errors
    /// The tables are full; nothing has changed.
    pub fn load(&mut self, prefix: Prefix, to: NextHop) -> Result<(), RibError> {
        let ignore = &mut |_| {};
        let hop = self.hops.take(to, &self.neighbours, ignore)?;
        let replaced = match prefix.address() {
            IpAddr::V4(address) => self.four.insert(address.to_bits(), prefix.bits(), hop),
            IpAddr::V6(address) => self.six.set(address.to_bits(), prefix.bits(), hop, ignore),
        };
        self.settle(hop, replaced, ignore)
    }

    /// Adds a route, or replaces that of the same prefix.
    ///
    /// # Errors
    /// The tables are full; nothing has changed.
    pub fn set(
        &mut self,
        prefix: Prefix,
        to: NextHop,
        steps: &mut Vec<FibChange>,
    ) -> Result<(), RibError> {
        let emit = &mut |change| steps.push(change);
        let hop = self.hops.take(to, &self.neighbours, emit)?;
        let replaced = match prefix.address() {
            IpAddr::V4(address) => self.four.set(address.to_bits(), prefix.bits(), hop, emit),
            IpAddr::V6(address) => self.six.set(address.to_bits(), prefix.bits(), hop, emit),
        };
        self.settle(hop, replaced, emit)
    }

    /// Removes the route of a prefix; false when there is none.
    ///
    /// # Errors
    /// The tables are full; nothing has changed.
    pub fn remove(&mut self, prefix: Prefix, steps: &mut Vec<FibChange>) -> Result<bool, RibError> {
        let emit = &mut |change| steps.push(change);
        let removed = match prefix.address() {
            IpAddr::V4(address) => self.four.remove(address.to_bits(), prefix.bits(), emit),
            IpAddr::V6(address) => self.six.remove(address.to_bits(), prefix.bits(), emit)?,
        };
        if let Some(hop) = removed {
            self.hops.give(hop, emit);
        }
        Ok(removed.is_some())
    }

    /// Sets what is known of a neighbour, or forgets it; false when there are [`NEIGHBOURS`] others
    /// already.
    pub fn set_neighbour(
        &mut self,
        port: PortId,
        address: IpAddr,
        neighbour: Option<Neighbour>,
        steps: &mut Vec<FibChange>,
    ) -> bool {
        let key = (port, address);
        match neighbour {
            Some(_)
                if self.neighbours.len() >= NEIGHBOURS && !self.neighbours.contains_key(&key) =>
            {
                return false;
            }
            Some(neighbour) => self.neighbours.insert(key, neighbour),
            None => self.neighbours.remove(&key),
        };
        steps.push(FibChange::Neighbour { port, address, neighbour });
        self.hops.resolve(port, address, neighbour, &mut |change| steps.push(change));
        true
    }

    /// Sets what a port is, or that it is not used any more.
    pub fn set_interface(
        &mut self,
        port: PortId,
        interface: Option<Interface>,
        steps: &mut Vec<FibChange>,
    ) {
        match interface {
            Some(interface) => self.interfaces.insert(port, interface),
            None => self.interfaces.remove(&port),
        };
        steps.push(FibChange::Interface { port, interface });
    }

    /// Adds an address of this host, or removes it: packets that say they come from it are lies.
    /// Packets to it need a route to [`NextHop::Local`] besides.
    pub fn set_own(&mut self, address: IpAddr, is_ours: bool, steps: &mut Vec<FibChange>) {
        let has_changed =
            if is_ours { self.own.insert(address) } else { self.own.remove(&address) };
        if has_changed {
            steps.push(FibChange::Own { address, is_ours });
        }
    }

    /// The route of exactly this prefix.
    pub fn get(&self, prefix: Prefix) -> Option<NextHop> {
        let hop = match prefix.address() {
            IpAddr::V4(address) => self.four.get(address.to_bits(), prefix.bits()),
            IpAddr::V6(address) => self.six.get(address.to_bits(), prefix.bits()),
        };
        self.hops.get(hop?)
    }

    /// How many routes there are, of IPv4 and of IPv6.
    pub fn len(&self) -> (usize, usize) {
        (self.four.len(), self.six.len())
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// Tables as everything stands, for a new data thread; `seed` as for [`Fib::new`].
    pub fn fib(&self, seed: u64) -> Fib {
        let mut fib = Fib::new(seed);
        self.four.fill(&mut fib.four);
        fib.six = self.six.table().clone();
        self.hops.each(&self.neighbours, &mut |change| fib.apply(&change));
        for ((port, address), neighbour) in &self.neighbours {
            let (port, address, neighbour) = (*port, *address, Some(*neighbour));
            fib.apply(&FibChange::Neighbour { port, address, neighbour });
        }
        for (port, interface) in &self.interfaces {
            let (port, interface) = (*port, Some(*interface));
            fib.apply(&FibChange::Interface { port, interface });
        }
        for address in &self.own {
            fib.apply(&FibChange::Own { address: *address, is_ours: true });
        }
        fib
    }

    /// Lets go of the next hop that is no longer used: the replaced one, or the new one after an
    /// error.
    fn settle(
        &mut self,
        hop: HopId,
        replaced: Result<Option<HopId>, RibError>,
        emit: &mut dyn FnMut(FibChange),
    ) -> Result<(), RibError> {
        match replaced {
            Ok(None) => Ok(()),
            Ok(Some(old)) => {
                self.hops.give(old, emit);
                Ok(())
            }
            Err(error) => {
                self.hops.give(hop, emit);
                Err(error)
            }
        }
    }
}

/// Why a route could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RibError {
    /// Routes go to as many different next hops as the tables can number.
    NextHops,
    /// IPv4 prefixes longer than /24 lie in as many /24 networks as there are groups for.
    LongPrefixes,
    /// The trie of IPv6 prefixes is full.
    Nodes,
}

impl fmt::Display for RibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NextHops => {
                write!(f, "no room for another next hop: there are {} already", HopId::LIMIT - 1)
            }
            Self::LongPrefixes => write!(
                f,
                "no room for another network with prefixes longer than /24: there are {} already",
                crate::fib::LONG_GROUPS
            ),
            Self::Nodes => write!(
                f,
                "no room for another IPv6 prefix: the trie has {} nodes, nearly all in use",
                crate::fib::NODES
            ),
        }
    }
}

impl std::error::Error for RibError {}

#[cfg(test)]
mod tests;
