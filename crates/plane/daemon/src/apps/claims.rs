//! What is taken from the kernel: destinations in the XDP programs, and by how many listeners.
//!
//! Two listeners can mean the same destination (every IPv4 address and every IPv6 address are one
//! key of the program), so each is given back with its last listener only. A connection that was
//! opened here takes no more than what its peer sends: the port may be another's listener.
//!
//! What applications in packet mode and the own workers listen on is theirs alone: no socket of a
//! program is served there, and they get nothing where one is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use port::OpenError;
use port::xdp::{Destination, Flow, Ours, Protocol, XdpInterface};
use sys::SysError;

/// Destinations that are taken, on every interface.
pub(crate) struct Claims {
    interfaces: Vec<Arc<XdpInterface>>,
    /// By how many listeners.
    taken: BTreeMap<Destination, usize>,
    /// Those of them that are one's alone: an application's in packet mode, or the own workers'.
    alone: BTreeSet<Destination>,
    /// Connections that are taken, and by how many that had the same ends one after the other.
    flows: BTreeMap<Flow, usize>,
}

impl Claims {
    /// `own` are the daemon's own, which the programs have already.
    pub(crate) fn new(interfaces: Vec<Arc<XdpInterface>>, own: Vec<Destination>) -> Self {
        let mut taken = BTreeMap::new();
        own.iter().for_each(|destination| *taken.entry(*destination).or_default() += 1);
        Self { interfaces, taken, alone: own.into_iter().collect(), flows: BTreeMap::new() }
    }

    /// Somebody wants `destination` for himself alone, which [`Self::has_shared`] has denied.
    ///
    /// # Errors
    /// A program could not be told; nothing is taken.
    pub(crate) fn add_alone(&mut self, destination: Destination) -> Result<(), OpenError> {
        self.add(destination)?;
        self.alone.insert(destination);
        Ok(())
    }

    /// Whether somebody has `destination`, wholly or in part, for himself alone.
    pub(crate) fn has_alone(&self, destination: Destination) -> bool {
        self.alone.iter().any(|other| overlap(other, &destination))
    }

    /// Whether sockets of programs have `destination`, wholly or in part.
    pub(crate) fn has_shared(&self, destination: Destination) -> bool {
        let is_shared = |other: &Destination| !self.alone.contains(other);
        self.taken.keys().any(|other| is_shared(other) && overlap(other, &destination))
    }

    /// One more listener wants the packets for `destination`.
    ///
    /// # Errors
    /// A program could not be told; nothing is counted.
    pub(crate) fn add(&mut self, destination: Destination) -> Result<(), OpenError> {
        self.add_by(Ours::add, destination)
    }

    /// The same, but for connections that the kernel has there, unless others had it taken already.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn add_beside_kernel(&mut self, destination: Destination) -> Result<(), OpenError> {
        self.add_by(Ours::add_beside_kernel, destination)
    }

    /// The kernel has no connections there any more.
    pub(crate) fn take_all(&self, destination: Destination) {
        for interface in self.interfaces.iter().filter(|_| self.has(destination)) {
            // One that cannot be told goes on asking the kernel, to no harm but the time.
            let _ = interface.ours().add(destination);
        }
    }

    /// The kernel may have connections at any TCP destination from now on: it is asked for each
    /// packet.
    pub(crate) fn leave_connections(&self) {
        let is_meant = |destination: &&Destination| {
            let Destination { protocol, address, port } = destination;
            *protocol == Protocol::Tcp && address.is_some() && port.is_some()
        };
        for destination in self.taken.keys().filter(is_meant) {
            for interface in &self.interfaces {
                // One that cannot be told takes what is the kernel's until the daemon has ended.
                let _ = interface.ours().add_beside_kernel(*destination);
            }
        }
    }

    fn add_by(
        &mut self,
        add: fn(&Ours, Destination) -> Result<(), SysError>,
        destination: Destination,
    ) -> Result<(), OpenError> {
        if !self.has(destination) {
            let added = |interface: &Arc<XdpInterface>| add(interface.ours(), destination);
            if let Err(error) = self.interfaces.iter().try_for_each(added) {
                self.interfaces.iter().for_each(|interface| {
                    let _ = interface.ours().remove(destination);
                });
                return Err(error.into());
            }
        }
        *self.taken.entry(destination).or_default() += 1;
        Ok(())
    }

    /// A connection is opened, and wants what its peer sends.
    ///
    /// # Errors
    /// A program could not be told; nothing is counted.
    pub(crate) fn add_flow(&mut self, flow: Flow) -> Result<(), OpenError> {
        if !self.flows.contains_key(&flow) {
            let added = |interface: &Arc<XdpInterface>| interface.flows().add(flow);
            if let Err(error) = self.interfaces.iter().try_for_each(added) {
                self.interfaces.iter().for_each(|interface| {
                    let _ = interface.flows().remove(flow);
                });
                return Err(error.into());
            }
        }
        *self.flows.entry(flow).or_default() += 1;
        Ok(())
    }

    /// It is over.
    pub(crate) fn remove_flow(&mut self, flow: Flow) {
        let Some(count) = self.flows.get_mut(&flow) else { return };
        *count -= 1;
        if *count == 0 {
            self.flows.remove(&flow);
            for interface in &self.interfaces {
                // An interface that is gone takes nothing any more.
                let _ = interface.flows().remove(flow);
            }
        }
    }

    /// Whether that connection is taken.
    #[cfg(test)]
    pub(crate) fn has_flow(&self, flow: Flow) -> bool {
        self.flows.contains_key(&flow)
    }

    /// Destinations that are taken.
    pub(crate) fn count(&self) -> usize {
        self.taken.len()
    }

    /// Whether somebody wants them.
    pub(crate) fn has(&self, destination: Destination) -> bool {
        self.taken.contains_key(&destination)
    }

    /// A listener wants them no more; with the last one they are the kernel's again.
    pub(crate) fn remove(&mut self, destination: Destination) {
        let Some(count) = self.taken.get_mut(&destination) else { return };
        *count -= 1;
        if *count == 0 {
            self.taken.remove(&destination);
            self.alone.remove(&destination);
            for interface in &self.interfaces {
                // An interface that is gone takes nothing any more.
                let _ = interface.ours().remove(destination);
            }
        }
    }
}

/// Whether packets may be for both.
pub(crate) fn overlap(one: &Destination, other: &Destination) -> bool {
    fn fit<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
        one.is_none() || other.is_none() || one == other
    }
    one.protocol == other.protocol && fit(one.address, other.address) && fit(one.port, other.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(protocol: Protocol, address: Option<u8>, port: Option<u16>) -> Destination {
        let address = address.map(|last| [10, 0, 0, last].into());
        Destination { protocol, address, port }
    }

    #[test]
    fn what_is_ones_alone_is_told_from_what_sockets_have_in_whole_and_in_part() {
        let tcp = |address, port| at(Protocol::Tcp, address, port);
        let own = vec![tcp(Some(1), Some(80))];
        let mut claims = Claims::new(Vec::new(), own);
        assert!(claims.has_alone(tcp(None, Some(80))) && claims.has_alone(tcp(Some(1), None)));
        assert!(!claims.has_alone(tcp(Some(2), Some(80))) && !claims.has_shared(tcp(None, None)));
        claims.add(tcp(Some(2), Some(443))).expect("there is no interface to refuse");
        for meant in [tcp(Some(2), Some(443)), tcp(None, Some(443)), tcp(Some(2), None)] {
            assert!(claims.has_shared(meant) && !claims.has_alone(tcp(Some(2), Some(443))));
        }
        for other in [tcp(Some(1), Some(443)), tcp(None, Some(80))] {
            assert!(!claims.has_shared(other));
        }
        assert!(!claims.has_shared(at(Protocol::Udp, None, None)));
        claims.add_alone(tcp(None, Some(22))).expect("there is no interface to refuse");
        assert!(claims.has_alone(tcp(Some(9), Some(22))));
        claims.remove(tcp(None, Some(22)));
        assert!(!claims.has_alone(tcp(Some(9), Some(22))));
        claims.remove(tcp(Some(2), Some(443)));
        assert!(!claims.has_shared(tcp(None, None)));
    }
}
