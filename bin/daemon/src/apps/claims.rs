//! What is taken from the kernel: destinations in the XDP programs, and by how many listeners.
//!
//! Two listeners can mean the same destination (every IPv4 address and every IPv6 address are one
//! key of the program), so each is given back with its last listener only.

use std::sync::Arc;

use port::OpenError;
use port::xdp::{Destination, XdpInterface};

/// Destinations that are taken, on every interface.
pub(crate) struct Claims {
    interfaces: Vec<Arc<XdpInterface>>,
    /// Once for each listener.
    taken: Vec<Destination>,
}

impl Claims {
    /// `own` are the daemon's own, which the programs have already.
    pub(crate) fn new(interfaces: Vec<Arc<XdpInterface>>, own: Vec<Destination>) -> Self {
        Self { interfaces, taken: own }
    }

    /// One more listener wants the packets for `destination`.
    ///
    /// # Errors
    /// A program could not be told; nothing is counted.
    pub(super) fn add(&mut self, destination: Destination) -> Result<(), OpenError> {
        if !self.taken.contains(&destination) {
            for interface in &self.interfaces {
                interface.ours().add(destination)?;
            }
        }
        self.taken.push(destination);
        Ok(())
    }

    /// A listener wants them no more; with the last one they are the kernel's again.
    pub(super) fn remove(&mut self, destination: Destination) {
        if let Some(at) = self.taken.iter().position(|taken| *taken == destination) {
            self.taken.swap_remove(at);
        }
        if !self.taken.contains(&destination) {
            for interface in &self.interfaces {
                // An interface that is gone takes nothing any more.
                let _ = interface.ours().remove(destination);
            }
        }
    }
}
