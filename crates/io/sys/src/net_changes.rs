//! Which kinds of links, addresses, routes and neighbours changed, for a program that keeps single
//! answers and asks again; [`NetMonitor`](crate::net_changes::NetMonitor) has every entry.

mod monitor;

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use crate::SysError;
use crate::netlink::{Groups, Heard};

pub use monitor::{Change, NetMonitor, Placed};

/// Room for some thousand changes that were not read yet: a routing daemon makes them in bursts.
const BUFFER_BYTES: usize = 1 << 20;

/// Datagrams read in one [`NetChanges::take`]: a storm of changes must not keep us.
const DATAGRAMS_MAX: usize = 256;

/// The changes in one network namespace, from when this was made.
#[derive(Debug)]
pub struct NetChanges {
    groups: Groups,
}

/// What has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Interfaces came, went, or are up, down or of another MTU.
    pub links: bool,
    /// Addresses of ours.
    pub addresses: bool,
    /// Routes, rules or next hops: every [`crate::route`] may be another.
    pub routes: bool,
    /// What is known of some neighbour.
    pub neighbours: bool,
}

impl Changed {
    /// Whether anything did.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// The groups of all that decides where packets go.
pub(crate) fn join_all(buffer_bytes: usize) -> Result<Groups, Errno> {
    /// Bits by enum rtnetlink_groups of linux/rtnetlink.h.
    const IPV6_RULE: u32 = 1 << (19 - 1);
    const NEXT_HOP: u32 = 1 << (32 - 1);
    let known = libc::RTMGRP_LINK
        | libc::RTMGRP_NEIGH
        | libc::RTMGRP_IPV4_IFADDR
        | libc::RTMGRP_IPV6_IFADDR
        | libc::RTMGRP_IPV4_ROUTE
        | libc::RTMGRP_IPV6_ROUTE
        | libc::RTMGRP_IPV4_RULE;
    let groups = known as u32 | IPV6_RULE;
    // Next hops of their own exist since Linux 5.3.
    Groups::join(None, groups | NEXT_HOP, buffer_bytes)
        .or_else(|_: Errno| Groups::join(None, groups, buffer_bytes))
}

impl NetChanges {
    /// Hears of the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// Netlink is not available, or descriptors are short.
    pub fn watch() -> Result<Self, SysError> {
        let groups = join_all(BUFFER_BYTES)
            .map_err(|errno| SysError::new("watch for changes of routes", errno, ""))?;
        Ok(Self { groups })
    }

    /// What has changed since the last call, or all if there was more than could be told; never
    /// waits. When it read its fill there may be more: the descriptor is still readable then.
    pub fn take(&mut self) -> Changed {
        let mut changed = Changed::default();
        for _ in 0..DATAGRAMS_MAX {
            match self.groups.next(|kind, _| changed.add(kind)) {
                Heard::Messages => {}
                Heard::Lost => {
                    changed =
                        Changed { links: true, addresses: true, routes: true, neighbours: true };
                }
                Heard::Nothing => break,
            }
        }
        changed
    }
}

impl Changed {
    fn add(&mut self, kind: u16) {
        /// Of linux/rtnetlink.h; libc has no names for these.
        const RTM_NEWNEXTHOP: u16 = 104;
        const RTM_DELNEXTHOP: u16 = 105;
        match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => self.links = true,
            libc::RTM_NEWADDR | libc::RTM_DELADDR => self.addresses = true,
            libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => self.neighbours = true,
            libc::RTM_NEWROUTE
            | libc::RTM_DELROUTE
            | libc::RTM_NEWRULE
            | libc::RTM_DELRULE
            | RTM_NEWNEXTHOP
            | RTM_DELNEXTHOP => self.routes = true,
            _ => {}
        }
    }
}

impl AsFd for NetChanges {
    /// Readable when something may have changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.groups.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_fresh_namespace, in_pair_of_namespaces, ip};

    fn all(changes: &mut NetChanges) -> Changed {
        let mut changed = Changed::default();
        loop {
            let more = changes.take();
            if !more.any() {
                return changed;
            }
            changed.links |= more.links;
            changed.addresses |= more.addresses;
            changed.routes |= more.routes;
            changed.neighbours |= more.neighbours;
        }
    }

    #[test]
    fn each_kind_of_change_is_told_as_what_it_is() {
        in_pair_of_namespaces(|_far| {
            ip("addr add 10.1.0.1/24 dev veth0");
            // So that nothing of IPv6 happens by itself meanwhile.
            std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("root may");
            let mut changes = NetChanges::watch().expect("rtnetlink is there");
            let mut told = |words: &str| {
                ip(words);
                all(&mut changes)
            };
            let none = Changed::default();
            assert_eq!(told("link show"), none);
            let routes = Changed { routes: true, ..none };
            assert_eq!(told("route add 10.2.0.0/16 via 10.1.0.9"), routes);
            assert_eq!(told("rule add from 10.1.0.2 table 7"), routes);
            assert_eq!(told("-6 rule add from fd01::2 table 7"), routes);
            assert_eq!(told("nexthop add id 7 via 10.1.0.9 dev veth0"), routes);
            let neighbours = Changed { neighbours: true, ..none };
            let entry = "neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev veth0";
            assert_eq!(told(entry), neighbours);
            // An address brings a route of its own.
            let addresses = Changed { addresses: true, routes: true, ..none };
            assert_eq!(told("addr add 10.7.0.1/24 dev veth0"), addresses);
            assert!(told("link set veth0 mtu 1400").links);
        });
    }

    #[test]
    fn what_was_too_much_to_tell_means_that_all_may_have_changed() {
        in_fresh_namespace(|| {
            ip("link set lo up");
            let mut changes = NetChanges::watch().expect("rtnetlink is there");
            rustix::net::sockopt::set_socket_recv_buffer_size(&changes, 2048).expect("a socket");
            for number in 1..100 {
                ip(&format!("addr add 10.1.0.{number}/32 dev lo"));
            }
            let all = Changed { links: true, addresses: true, routes: true, neighbours: true };
            assert_eq!(changes.take(), all);
            assert!(!changes.take().any(), "told once");
            ip("addr add 10.2.0.1/32 dev lo");
            assert!(changes.take().addresses, "it hears again");
        });
    }
}
