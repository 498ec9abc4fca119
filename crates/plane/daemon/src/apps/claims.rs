//! What is taken from the kernel: destinations in the XDP programs, and by how many listeners.
//!
//! Two listeners can mean the same destination (every IPv4 address and every IPv6 address are one
//! key of the program), so each is given back with its last listener only. A connection that was
//! opened here takes no more than what its peer sends: the port may be another's listener.

use std::collections::BTreeMap;
use std::sync::Arc;

use port::OpenError;
use port::xdp::{Destination, Flow, Ours, Protocol, XdpInterface};
use sys::SysError;

/// Destinations that are taken, on every interface.
pub(crate) struct Claims {
    interfaces: Vec<Arc<XdpInterface>>,
    /// By how many listeners.
    taken: BTreeMap<Destination, usize>,
    /// Connections that are taken, and by how many that had the same ends one after the other.
    flows: BTreeMap<Flow, usize>,
}

impl Claims {
    /// `own` are the daemon's own, which the programs have already.
    pub(crate) fn new(interfaces: Vec<Arc<XdpInterface>>, own: Vec<Destination>) -> Self {
        let mut taken = BTreeMap::new();
        own.into_iter().for_each(|destination| *taken.entry(destination).or_default() += 1);
        Self { interfaces, taken, flows: BTreeMap::new() }
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
            for interface in &self.interfaces {
                // An interface that is gone takes nothing any more.
                let _ = interface.ours().remove(destination);
            }
        }
    }
}
