//! What the kernel says of the network namespace (routes and neighbours, interfaces, packet
//! filters) and of control groups, which have filters of their own.

use std::os::fd::{AsFd, BorrowedFd};

use attach::FallbackReason;
use base::Nanos;
use sys::SysError;

use super::control_groups::ControlGroups;
use super::errors::Errors;
use super::examine;
use super::firewall::Firewall;
use super::interfaces::{Interfaces, PortInterface};
use super::routes::{Link, Neighbours};
use super::sources::SourceRoutes;

/// What the kernel says of this thread's network namespace.
pub(super) struct Network {
    /// The namespace's cookie (SO_NETNS_COOKIE).
    pub(super) namespace: u64,
    pub(super) neighbours: Neighbours,
    pub(super) interfaces: Interfaces,
    pub(super) firewall: Firewall,
    pub(super) control_groups: ControlGroups,
    /// Where first packets may come from.
    pub(super) sources: SourceRoutes,
    /// What routers say of datagrams.
    pub(super) errors: Errors,
}

impl Network {
    /// Hears of changes from now on.
    ///
    /// # Errors
    /// The kernel's netlink sockets, or raw ones, cannot be opened.
    pub(super) fn watch(
        links: Vec<Link>,
        names: Vec<PortInterface>,
        is_firewall_ignored: bool,
    ) -> Result<Self, SysError> {
        let sources = SourceRoutes::new(links.clone(), &names);
        let numbers = names.iter().map(|named| named.number);
        let firewall = Firewall::watch(is_firewall_ignored, numbers)?;
        Ok(Self {
            namespace: examine::own_namespace()?,
            neighbours: Neighbours::new(links)?,
            interfaces: Interfaces::new(names),
            firewall,
            control_groups: ControlGroups::new(is_firewall_ignored),
            sources,
            errors: Errors::new()?,
        })
    }

    /// Why a process's sockets are to be the kernel's, if filters of the namespace or of its
    /// control group guard them.
    pub(super) fn guarded(&mut self, pid: u32, now: Nanos) -> Option<FallbackReason> {
        if self.firewall.forbids(now) {
            return Some(FallbackReason::FirewallRules);
        }
        self.control_groups.forbids(pid, now)
    }

    /// Whether filters are passed by from now on.
    pub(super) fn ignore_filters(&mut self, is_ignored: bool) {
        self.firewall.ignore(is_ignored);
        self.control_groups.ignore(is_ignored);
    }

    /// Readable when something may have changed.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.neighbours.as_fd()].into_iter().chain(self.firewall.descriptor())
    }
}
