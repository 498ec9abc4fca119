//! The network namespace as the kernel describes it: routes and neighbours, interfaces, packet
//! filters.

use std::os::fd::{AsFd, BorrowedFd};

use sys::SysError;

use super::examine;
use super::firewall::Firewall;
use super::interfaces::Interfaces;
use super::routes::{Link, Neighbours};

/// What the kernel says of this thread's network namespace.
pub(super) struct Network {
    /// The namespace's cookie (SO_NETNS_COOKIE).
    pub(super) namespace: u64,
    pub(super) neighbours: Neighbours,
    pub(super) interfaces: Interfaces,
    pub(super) firewall: Firewall,
}

impl Network {
    /// Hears of changes from now on.
    ///
    /// # Errors
    /// The kernel's netlink sockets cannot be opened.
    pub(super) fn watch(
        links: Vec<Link>,
        names: Vec<(u32, String, bool)>,
        is_firewall_ignored: bool,
    ) -> Result<Self, SysError> {
        Ok(Self {
            namespace: examine::own_namespace()?,
            neighbours: Neighbours::new(links)?,
            interfaces: Interfaces::new(names),
            firewall: Firewall::watch(is_firewall_ignored)?,
        })
    }

    /// Readable when something may have changed.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.neighbours.as_fd()].into_iter().chain(self.firewall.descriptor())
    }
}
