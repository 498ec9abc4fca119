//! Under which link addresses this host is reached by each port, as the kernel has it now.
//!
//! A link address may change while a port is open, and the kernel takes a frame for its own under
//! others beside: those of its own parts, and of all that is over it: the bridge or bond that it is
//! a part of, macvlan and VLAN interfaces, and what is over these. What is over it in another
//! namespace is another host's.

use std::collections::BTreeSet;
use std::sync::Arc;

use port::xdp::XdpInterface;
use port::{Opener, PortSpec, Stations};
use sys::SysError;
use sys::interface::{self, Interface};

use crate::log;

/// A port that hears frames of others.
struct Followed {
    /// As it was configured.
    text: String,
    /// Of its interface, which an AF_XDP port may have another one of later.
    number: Number,
    stations: Arc<Stations>,
    /// How many addresses had no place when that was said last.
    without_place: usize,
}

enum Number {
    Fixed(u32),
    Of(Arc<XdpInterface>),
}

/// All ports whose interface's addresses are ours.
pub(crate) struct StationFollower {
    ports: Vec<Followed>,
}

impl StationFollower {
    /// Follows the interfaces of `ports`, and writes into `stations`, which are in the same order.
    pub(crate) fn new(
        ports: &[(String, PortSpec)],
        stations: impl IntoIterator<Item = Arc<Stations>>,
        opener: &Opener,
    ) -> Self {
        let followed = |((text, spec), stations): (&(String, PortSpec), _)| {
            let number = match spec {
                PortSpec::Xdp { interface: name, .. } => {
                    let mut all = opener.interfaces();
                    Number::Of(Arc::clone(all.find(|interface| interface.name() == name)?))
                }
                PortSpec::AfPacket { interface, .. } => {
                    Number::Fixed(interface::index_of(interface)?)
                }
                // The interface of a TAP is the kernel's end, with an address of its own.
                PortSpec::Tap { .. } | PortSpec::Pcap(_) => return None,
            };
            Some(Followed { text: text.clone(), number, stations, without_place: 0 })
        };
        Self { ports: ports.iter().zip(stations).filter_map(followed).collect() }
    }

    /// Asks the kernel, and writes down what it says. An interface that is gone keeps what it had.
    ///
    /// # Errors
    /// Netlink is not available, or a program's map cannot be changed: the first of these, and all
    /// other ports are followed.
    pub(crate) fn follow(&mut self) -> Result<(), SysError> {
        if self.ports.is_empty() {
            return Ok(());
        }
        let interfaces = interface::list()?;
        let mut followed = Ok(());
        for Followed { text, number, stations, without_place } in &mut self.ports {
            let (number, interface) = match number {
                Number::Fixed(number) => (*number, None),
                Number::Of(interface) => (interface.index(), Some(interface)),
            };
            let Some((own, others)) = addresses_of(number, &interfaces) else { continue };
            let before = stations.own();
            let too_many = stations.set(own, &others);
            // Then the program, which takes nothing that would be dropped.
            if let Some(interface) = interface {
                followed = followed.and(interface.follow(stations));
            }
            if before != own {
                let own = own.map(|byte| format!("{byte:02x}")).join(":");
                tracing::info!(target: log::PORTS, port = text, "its link address is {own} now");
            }
            if too_many > *without_place {
                tracing::warn!(
                    target: log::PORTS,
                    port = text,
                    "its interface has {too_many} link addresses more than the {} that are served: \
                     frames to those are dropped",
                    Stations::MAX
                );
            }
            *without_place = too_many;
        }
        followed
    }
}

/// The address of interface `number`, and the others under which the host takes what comes by it:
/// those first that are likely to be used. A bond may be in a bridge, with a VLAN interface over
/// that and a macvlan over that one: what is over a port is followed for as far as it goes in this
/// namespace.
fn addresses_of(number: u32, interfaces: &[Interface]) -> Option<([u8; 6], Vec<[u8; 6]>)> {
    let own = interfaces.iter().find(|one| one.index == number)?;
    let mut over = Vec::new();
    let mut level = vec![own];
    let mut reached = BTreeSet::from([number]);
    // Each interface once, so that this ends whatever the kernel says; it piles up eight at most
    // (MAX_NEST_DEV).
    while !level.is_empty() {
        let masters: BTreeSet<u32> = level.iter().filter_map(|one| one.master).collect();
        let below: BTreeSet<u32> = level.iter().map(|one| one.index).collect();
        let is_master = |one: &&Interface| masters.contains(&one.index);
        let is_over = |one: &&Interface| {
            matches!(one.kind.as_str(), "macvlan" | "vlan")
                && one.lower.is_some_and(|lower| below.contains(&lower))
        };
        let next = interfaces.iter().filter(is_master).chain(interfaces.iter().filter(is_over));
        level = next.filter(|one| reached.insert(one.index)).collect();
        over.extend(&level);
    }
    let parts = interfaces.iter().filter(|one| one.master == Some(number));
    // Many share one address, and some have none.
    let mut seen = BTreeSet::from([own.mac, [0; 6]]);
    let others = over.into_iter().chain(parts).map(|one| one.mac);
    Some((own.mac, others.filter(|mac| seen.insert(*mac)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, kind: &str, master: Option<u32>, lower: Option<u32>) -> Interface {
        Interface {
            name: format!("if{index}"),
            index,
            mac: [2, 0, 0, 0, 0, index as u8],
            mtu: 1500,
            up: true,
            running: true,
            operational: true,
            rx_queues: 1,
            tx_queues: 1,
            kind: kind.to_owned(),
            master,
            lower,
            qdisc: String::new(),
            xdp: None,
        }
    }

    fn last_bytes(number: u32, interfaces: &[Interface]) -> Option<(u8, Vec<u8>)> {
        let (own, others) = addresses_of(number, interfaces)?;
        Some((own[5], others.iter().map(|mac| mac[5]).collect()))
    }

    #[test]
    fn a_port_is_reached_under_its_own_address_its_bridges_its_parts_and_of_what_is_over_it() {
        let mut all = vec![
            interface(1, "", None, None),
            interface(2, "veth", Some(5), None),
            interface(3, "", Some(5), None),
            interface(4, "macvlan", None, Some(1)),
            interface(5, "bridge", None, None),
            interface(6, "macvtap", None, Some(1)),
            interface(7, "vlan", None, Some(1)),
            interface(8, "ipvlan", None, Some(1)),
            interface(9, "macvlan", None, Some(3)),
            // Over an interface of another namespace.
            interface(10, "macvlan", None, None),
        ];
        assert_eq!(last_bytes(1, &all), Some((1, vec![4, 7])));
        assert_eq!(last_bytes(2, &all), Some((2, vec![5])));
        assert_eq!(last_bytes(3, &all), Some((3, vec![5, 9])));
        assert_eq!(last_bytes(5, &all), Some((5, vec![2, 3])));
        assert_eq!(last_bytes(11, &all), None, "it is gone");
        // A bond gives all its parts its own address, and a tunnel has none.
        all[4].mac = all[1].mac;
        all[2].mac = [0; 6];
        assert_eq!(last_bytes(5, &all), Some((2, vec![])));
        assert_eq!(last_bytes(2, &all), Some((2, vec![])));
    }

    #[test]
    fn what_is_over_a_ports_bridge_bond_or_vlan_is_reached_by_the_port_too() {
        let mut all = vec![
            interface(1, "", Some(2), None),
            interface(2, "bond", Some(3), None),
            interface(3, "bridge", None, None),
            interface(4, "vlan", None, Some(3)),
            interface(5, "macvlan", None, Some(4)),
            interface(6, "macvlan", None, Some(2)),
            // Another part of the bond has a way of its own.
            interface(7, "", Some(2), None),
            interface(8, "vlan", None, Some(7)),
        ];
        assert_eq!(last_bytes(1, &all), Some((1, vec![2, 3, 6, 4, 5])));
        assert_eq!(last_bytes(2, &all), Some((2, vec![3, 6, 4, 5, 1, 7])));
        // No kernel has such a circle.
        all[2].master = Some(1);
        assert_eq!(last_bytes(3, &all), Some((3, vec![1, 4, 2, 5, 6])));
    }
}
