//! Every change of routes and neighbours, entry by entry, as `ip monitor` prints them: for tables
//! that must say what the kernel's say.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::join_all;
use crate::SysError;
use crate::neighbour::{self, Neighbour};
use crate::netlink::{Groups, Heard, NLM_F_APPEND, NLM_F_REPLACE};
use crate::route::{self, Entry};

/// Room for some ten thousand changes that were not read yet: a routing daemon makes them in
/// bursts.
const BUFFER_BYTES: usize = 8 << 20;

/// Datagrams read in one [`NetMonitor::take`]: a storm of changes must not keep us.
const DATAGRAMS_MAX: usize = 4096;

/// The changes in one network namespace, from when this was made.
#[derive(Debug)]
pub struct NetMonitor {
    groups: Groups,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A table has an entry more, or another one.
    Route(Entry, Placed),
    /// A table has lost an entry.
    RouteGone(Entry),
    /// What is known of a neighbour on the link of an interface.
    Neighbour(u32, IpAddr, Neighbour),
    /// Nothing is known of it any more.
    NeighbourGone(u32, IpAddr),
    /// Links, addresses of ours, rules or next hops changed. Routes may have gone with them of
    /// which nothing is said: whoever follows them dumps them again.
    Arrangement,
    /// More happened than could be told: everything may be different.
    Lost,
}

/// Where an entry stands among those of the same destinations and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Before them.
    First,
    /// In the place of the one that was first.
    Instead,
    /// Behind them.
    Last,
}

impl NetMonitor {
    /// Hears of the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// Netlink is not available, or descriptors are short.
    pub fn follow() -> Result<Self, SysError> {
        let groups = join_all(BUFFER_BYTES)
            .map_err(|errno| SysError::new("follow the kernel's routes", errno, ""))?;
        Ok(Self { groups })
    }

    /// Passes what has happened since the last call to `each`, oldest first; never waits. When it
    /// read its fill there may be more: the descriptor is still readable then.
    pub fn take(&mut self, mut each: impl FnMut(Change)) {
        for _ in 0..DATAGRAMS_MAX {
            let heard = self.groups.next_with_flags(|kind, flags, body| {
                read(kind, flags, body).into_iter().for_each(&mut each);
            });
            match heard {
                Heard::Messages => {}
                Heard::Lost => each(Change::Lost),
                Heard::Nothing => break,
            }
        }
    }
}

fn read(kind: u16, flags: u16, body: &[u8]) -> Option<Change> {
    Some(match kind {
        libc::RTM_NEWROUTE => {
            let placed = match flags {
                flags if flags & NLM_F_REPLACE != 0 => Placed::Instead,
                flags if flags & NLM_F_APPEND != 0 => Placed::Last,
                _ => Placed::First,
            };
            Change::Route(route::parse_entry(body)?, placed)
        }
        libc::RTM_DELROUTE => Change::RouteGone(route::parse_entry(body)?),
        libc::RTM_NEWNEIGH => {
            let (interface, at, known) = neighbour::parse_entry(body)?;
            Change::Neighbour(interface, at, known)
        }
        libc::RTM_DELNEIGH => {
            let (interface, at, _) = neighbour::parse_entry(body)?;
            Change::NeighbourGone(interface, at)
        }
        _ => Change::Arrangement,
    })
}

impl AsFd for NetMonitor {
    /// Readable when there may be changes.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.groups.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface;
    use crate::testing::{in_fresh_namespace, in_pair_of_namespaces, ip};

    fn all(monitor: &mut NetMonitor) -> Vec<Change> {
        let mut all = Vec::new();
        monitor.take(|one| all.push(one));
        all
    }

    #[test]
    fn routes_and_neighbours_are_told_entry_by_entry() {
        in_pair_of_namespaces(|_far| {
            ip("addr add 10.1.0.1/24 dev veth0");
            // So that nothing of IPv6 happens by itself meanwhile.
            std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("root may");
            let mut monitor = NetMonitor::follow().expect("rtnetlink is there");
            let mut told = |words: &str| {
                ip(words);
                all(&mut monitor)
            };
            let via = |change: &Change| match *change {
                Change::Route(entry, placed) => (entry.gateway, Some(placed)),
                Change::RouteGone(entry) => (entry.gateway, None),
                _ => panic!("{change:?}"),
            };
            let at = |last| Some(IpAddr::from([10, 1, 0, last]));
            let mut only = |words: &str| {
                let told = told(words);
                assert_eq!(told.len(), 1, "{words}: {told:?}");
                via(&told[0])
            };
            assert_eq!(only("route add 10.2.0.0/16 via 10.1.0.9"), (at(9), Some(Placed::First)));
            let replaced = only("route replace 10.2.0.0/16 via 10.1.0.8");
            assert_eq!(replaced, (at(8), Some(Placed::Instead)));
            let appended = only("route append 10.2.0.0/16 via 10.1.0.7");
            assert_eq!(appended, (at(7), Some(Placed::Last)));
            let prepended = only("route prepend 10.2.0.0/16 via 10.1.0.6");
            assert_eq!(prepended, (at(6), Some(Placed::First)));
            assert_eq!(only("route del 10.2.0.0/16 via 10.1.0.7"), (at(7), None));
            let entry = told("neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev veth0");
            let [Change::Neighbour(interface, address, known)] = entry[..] else {
                panic!("{entry:?}")
            };
            assert_eq!(Some(interface), interface::index_of("veth0"));
            assert_eq!((Some(address), known.usable_mac()), (at(9), Some([2, 0, 0, 0, 0, 9])));
            let gone = told("neigh del 10.1.0.9 dev veth0");
            assert!(gone.contains(&Change::NeighbourGone(interface, address)), "{gone:?}");
            assert!(told("link set veth0 mtu 1400").contains(&Change::Arrangement));
        });
    }

    #[test]
    fn what_was_too_much_to_tell_is_said() {
        in_fresh_namespace(|| {
            ip("link set lo up");
            let mut monitor = NetMonitor::follow().expect("rtnetlink is there");
            rustix::net::sockopt::set_socket_recv_buffer_size(&monitor, 2048).expect("a socket");
            for number in 1..100 {
                ip(&format!("route add 10.1.{number}.0/24 dev lo"));
            }
            assert!(all(&mut monitor).contains(&Change::Lost));
            assert_eq!(all(&mut monitor), [], "told once");
            ip("route add 10.2.0.0/16 dev lo");
            assert!(matches!(all(&mut monitor)[..], [Change::Route(..)]), "it hears again");
        });
    }
}
