//! What is taken from the kernel: destinations in the XDP programs, and by how many listeners.
//!
//! Two listeners can mean the same destination (every IPv4 address and every IPv6 address are one
//! key of the program), so each is given back with its last listener only.

use std::collections::BTreeMap;
use std::sync::Arc;

use port::OpenError;
use port::xdp::{Destination, XdpInterface};

/// Destinations that are taken, on every interface.
pub(crate) struct Claims {
    interfaces: Vec<Arc<XdpInterface>>,
    /// By how many listeners.
    taken: BTreeMap<Destination, usize>,
}

impl Claims {
    /// `own` are the daemon's own, which the programs have already.
    pub(crate) fn new(interfaces: Vec<Arc<XdpInterface>>, own: Vec<Destination>) -> Self {
        let mut taken = BTreeMap::new();
        own.into_iter().for_each(|destination| *taken.entry(destination).or_default() += 1);
        Self { interfaces, taken }
    }

    /// One more listener wants the packets for `destination`.
    ///
    /// # Errors
    /// A program could not be told; nothing is counted.
    pub(crate) fn add(&mut self, destination: Destination) -> Result<(), OpenError> {
        if !self.has(destination) {
            for interface in &self.interfaces {
                interface.ours().add(destination)?;
            }
        }
        *self.taken.entry(destination).or_default() += 1;
        Ok(())
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
