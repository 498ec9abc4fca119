//! What is taken from the kernel for programs, by what right, and when it goes back.

use base::Nanos;
use port::xdp::{Destination, Protocol};

use super::beside_kernel::BesideKernel;
use super::connected::Connected;
use super::descriptors::Descriptors;
use super::guards::{Holds, destination};
use super::lingering::Lingering;
use super::records::{Record, What};
use super::rights::Rights;
use crate::apps::Claims;

/// What is taken from the kernel.
pub(super) struct Claimed {
    /// For connections that were opened here.
    pub(super) holds: Holds,
    /// For listeners that have ended.
    pub(super) lingering: Lingering,
    /// For listeners and UDP sockets: whether they still have the right to it.
    pub(super) rights: Rights,
    /// Sockets of the kernel that get what their peers send.
    pub(super) connected: Connected,
    /// For listeners: where the kernel may still have connections.
    pub(super) beside_kernel: BesideKernel,
    /// Destinations that nobody here wants any more.
    pub(super) released: Vec<Destination>,
}

impl Claimed {
    pub(super) fn new(interfaces: impl IntoIterator<Item = u32>) -> Self {
        Self {
            holds: Holds::default(),
            lingering: Lingering::default(),
            rights: Rights::new(interfaces),
            connected: Connected::default(),
            beside_kernel: BesideKernel::default(),
            released: Vec::new(),
        }
    }

    /// What was taken for a socket whose application is gone goes back.
    pub(super) fn release(&mut self, record: Record) {
        match record.what {
            What::Listener(listener) => {
                let addresses = listener.addresses.iter();
                self.released.extend(addresses.map(|at| destination(Protocol::Tcp, *at)));
            }
            What::Datagram(bound) => self.released.extend(bound.destinations),
            What::Stream | What::Unsent | What::Local => {}
        }
    }

    /// Gives back all addresses of listeners that have ended, whoever may still need them.
    pub(super) fn release_lingering(&mut self) {
        let addresses = self.lingering.take_all();
        self.released.extend(addresses.map(|at| destination(Protocol::Tcp, at)));
    }

    /// Gives back to the kernel what is due.
    pub(super) fn tend(&mut self, now: Nanos, claims: &mut Claims, descriptors: &mut Descriptors) {
        for destination in std::mem::take(&mut self.released) {
            claims.remove(destination);
        }
        self.holds.tend(now, claims, descriptors);
        self.beside_kernel.tend(now, claims);
    }

    /// When something is due although nobody says anything.
    pub(super) fn next_deadline(&self) -> Nanos {
        let beside_kernel = self.beside_kernel.next_deadline();
        let lists = [self.holds.next_deadline(), self.lingering.next_deadline(), beside_kernel];
        lists.into_iter().fold(self.rights.next_deadline(), Nanos::min)
    }
}
