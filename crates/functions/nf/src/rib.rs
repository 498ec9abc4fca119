//! Routes and neighbours as the control side knows them, and the steps that bring them to data
//! threads.
//!
//! Each call changes what is known here and appends the [`FibChange`]s for it; whoever runs the
//! threads gives all of them, in order, to each. [`Rib::fib`] makes the tables of a new thread. A
//! prefix has one route: of several (metrics, protocols, paths) the caller chooses the one in
//! force.
//!
//! Room in the tables is bounded. A route that finds none is known all the same, and tried again
//! when others go; until then the packets that it might be for lead to [`NextHop::NoRoom`], because
//! a shorter prefix would send them to the wrong router.

mod blocks;
mod four;
mod hops;
mod six;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

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
    /// Routes whose next hop found no number.
    unnumbered: BTreeMap<Prefix, NextHop>,
    neighbours: BTreeMap<(PortId, IpAddr), Neighbour>,
    interfaces: BTreeMap<PortId, Interface>,
    own: BTreeSet<IpAddr>,
    made: BTreeSet<IpAddr>,
    served: BTreeSet<Ipv4Addr>,
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
    /// The tables are full: the route is known, and packets that it might be for are dropped.
    pub fn load(&mut self, prefix: Prefix, to: NextHop) -> Result<(), RibError> {
        let done = self.put(prefix, to, None);
        self.number_again(None);
        done
    }

    /// Adds a route, or replaces that of the same prefix.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn set(
        &mut self,
        prefix: Prefix,
        to: NextHop,
        steps: &mut Vec<FibChange>,
    ) -> Result<(), RibError> {
        let done = self.put(prefix, to, Some(steps));
        self.number_again(Some(steps));
        done
    }

    /// Removes the route of a prefix; false when there is none.
    pub fn remove(&mut self, prefix: Prefix, steps: &mut Vec<FibChange>) -> bool {
        self.unnumbered.remove(&prefix);
        let emit = &mut |change| steps.push(change);
        let removed = match prefix.address() {
            IpAddr::V4(address) => self.four.remove(address.to_bits(), prefix.bits(), emit),
            IpAddr::V6(address) => self.six.remove(address.to_bits(), prefix.bits(), emit),
        };
        if let Some(hop) = removed {
            self.hops.give(hop, emit);
            self.number_again(Some(steps));
        }
        removed.is_some()
    }

    /// Routes that found no room.
    pub fn withheld(&self) -> usize {
        self.unnumbered.len() + self.four.withheld() + self.six.withheld()
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

    /// Adds an address that functions before the router send from, and nobody outside, or removes
    /// it. It may be one of this host or not.
    pub fn set_made(&mut self, address: IpAddr, is_made: bool, steps: &mut Vec<FibChange>) {
        let has_changed =
            if is_made { self.made.insert(address) } else { self.made.remove(&address) };
        if has_changed {
            steps.push(FibChange::Made { address, is_made });
        }
    }

    /// Adds an address of those, from which servers answer by themselves, or removes it.
    pub fn set_served(&mut self, address: Ipv4Addr, is_served: bool, steps: &mut Vec<FibChange>) {
        let has_changed =
            if is_served { self.served.insert(address) } else { self.served.remove(&address) };
        if has_changed {
            steps.push(FibChange::Served { address, is_served });
        }
    }

    /// What is known of a neighbour.
    pub fn neighbour(&self, port: PortId, address: IpAddr) -> Option<Neighbour> {
        self.neighbours.get(&(port, address)).copied()
    }

    /// The route of exactly this prefix.
    pub fn get(&self, prefix: Prefix) -> Option<NextHop> {
        if let Some(to) = self.unnumbered.get(&prefix) {
            return Some(*to);
        }
        let hop = match prefix.address() {
            IpAddr::V4(address) => self.four.get(address.to_bits(), prefix.bits()),
            IpAddr::V6(address) => self.six.get(address.to_bits(), prefix.bits()),
        };
        self.hops.get(hop?)
    }

    /// Passes on every route, those that found no room too, in no order.
    pub fn each(&self, each: &mut dyn FnMut(Prefix, NextHop)) {
        let mut pass = |prefix: Prefix, hop: HopId| {
            let to = self.unnumbered.get(&prefix).copied().or_else(|| self.hops.get(hop));
            to.into_iter().for_each(|to| each(prefix, to));
        };
        self.four.each(&mut |address, bits, hop| {
            pass(Prefix::of(std::net::Ipv4Addr::from_bits(address).into(), bits), hop);
        });
        self.six.each(&mut |address, bits, hop| {
            pass(Prefix::of(std::net::Ipv6Addr::from_bits(address).into(), bits), hop);
        });
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
        fib.six = self.six.table();
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
        for address in &self.made {
            fib.apply(&FibChange::Made { address: *address, is_made: true });
        }
        for address in &self.served {
            fib.apply(&FibChange::Served { address: *address, is_served: true });
        }
        fib
    }

    /// Takes a route, with steps where data threads have tables.
    fn put(
        &mut self,
        prefix: Prefix,
        to: NextHop,
        mut steps: Option<&mut Vec<FibChange>>,
    ) -> Result<(), RibError> {
        let is_load = steps.is_none();
        let emit = &mut |change| {
            if let Some(steps) = &mut steps {
                steps.push(change);
            }
        };
        let (hop, numbered) = match self.hops.take(to, &self.neighbours, emit) {
            Ok(hop) => {
                self.unnumbered.remove(&prefix);
                (hop, Ok(()))
            }
            Err(error) => {
                self.unnumbered.insert(prefix, to);
                (HopId::NO_ROOM, Err(error))
            }
        };
        let bits = prefix.bits();
        let (replaced, placed) = match prefix.address() {
            IpAddr::V4(address) if is_load => self.four.insert(address.to_bits(), bits, hop),
            IpAddr::V4(address) => self.four.set(address.to_bits(), bits, hop, emit),
            IpAddr::V6(address) => self.six.set(address.to_bits(), bits, hop, emit),
        };
        if let Some(old) = replaced {
            self.hops.give(old, emit);
        }
        numbered.and(placed)
    }

    /// Gives numbers that are free again to next hops that wait for one.
    fn number_again(&mut self, mut steps: Option<&mut Vec<FibChange>>) {
        while let Some((prefix, to)) = self.unnumbered.first_key_value()
            && self.hops.has_room_for(*to)
        {
            let (prefix, to) = (*prefix, *to);
            // Where the prefix itself has no room it is withheld for that reason still.
            let _ = self.put(prefix, to, steps.as_deref_mut());
        }
    }
}

/// Why a route is known and nothing is forwarded by it.
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
                write!(f, "no room for another next hop: there are {} already", HopId::LIMIT - 2)
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
