//! Forwarding tables of one data thread: address → next hop → link address.
//!
//! They are only read while packets are processed. Between two batches the thread applies
//! [`FibChange`]s, which the control side ([`crate::Rib`]) makes: each is small, and after each one
//! the tables are whole, so a batch may come between any two of them. What must hold: changes are
//! applied in the order in which they were made, all of them, to tables that [`crate::Rib::fib`]
//! gave out before the first.

mod fib4;
mod fib6;
mod neighbours;

pub use fib4::{Fib4, LONG_GROUPS};
pub use fib6::{Fib6, NODES, Node};
pub use neighbours::{NEIGHBOURS, Neighbours};

pub(crate) use fib6::{CELLS, STRIDE, index_of};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::PortId;
use wire::ipv4;

/// The number of a next hop in the tables; zero: there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct HopId(pub u16);

impl HopId {
    /// No route.
    pub const NONE: Self = Self(0);
    /// [`NextHop::NoRoom`], in all tables.
    pub const NO_ROOM: Self = Self(1);
    /// Numbers are below this: the tables keep a flag in the spare bit.
    pub const LIMIT: u16 = 0x8000;

    /// The number as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where packets of a route go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextHop {
    /// To another router.
    Gateway {
        /// By this port.
        port: PortId,
        /// Which router; an IPv4 route may have an IPv6 one (RFC 8950).
        address: IpAddr,
    },
    /// To the destination itself, which is on this port's link.
    OnLink {
        /// By this port.
        port: PortId,
    },
    /// To this host, which the function does not serve.
    Local,
    /// Nowhere, and nobody is told.
    Blackhole,
    /// Nowhere; the sender is told that the host cannot be reached.
    Unreachable,
    /// Nowhere; the sender is told that somebody forbade it.
    Prohibit,
    /// Nowhere; the sender is told that there is no route, whatever shorter prefixes say.
    NoRoute,
    /// Nowhere: a route that might say where found no room in the tables, and a shorter prefix is
    /// no substitute for it.
    NoRoom,
}

/// A next hop as the tables hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where packets go.
    pub to: NextHop,
    /// The gateway's link address, as far as it is known.
    pub neighbour: Option<Neighbour>,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Its link address.
    At([u8; 6]),
    /// It was asked for and has not answered.
    Failed,
}

/// What a port of ours is on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its link address.
    pub mac: [u8; 6],
    /// Bytes of the longest IP packet that the link takes.
    pub mtu: u32,
    /// The address that our IPv4 error messages come from; `None`: none are sent.
    pub four: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub six: Option<Ipv6Addr>,
}

/// One step of the control side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibChange {
    /// IPv4: the /24 networks `first..first + count` get `hop`.
    Fill24 {
        /// The first one: an address shifted by eight bits.
        first: u32,
        /// How many, at most [`FibChange::ENTRIES_MAX`].
        count: u16,
        /// Their next hop.
        hop: HopId,
    },
    /// IPv4: the /24 network `slot` has longer prefixes, which are in `group`.
    Extend {
        /// The network: an address shifted by eight bits.
        slot: u32,
        /// Below [`LONG_GROUPS`].
        group: u16,
    },
    /// IPv4: the addresses `first..first + count` of a group get `hop`.
    Fill8 {
        /// Which group.
        group: u16,
        /// The first one: the last octet of an address.
        first: u8,
        /// How many, at most 256.
        count: u16,
        /// Their next hop.
        hop: HopId,
    },
    /// IPv4: the /8 networks `first..first + count` get `hop` where nothing longer than /7 says
    /// more.
    Fill7 {
        /// The first octet.
        first: u8,
        /// How many, at most 256.
        count: u16,
        /// Their next hop.
        hop: HopId,
    },
    /// IPv6: the /16 networks `first..first + count` get `hop` where nothing longer says more.
    Fill16 {
        /// The first one: an address shifted by 112 bits.
        first: u16,
        /// How many, at most [`FibChange::ENTRIES_MAX`].
        count: u16,
        /// Their next hop.
        hop: HopId,
    },
    /// IPv6: prefixes longer than /16 of the network `cell` are below this node; zero: there are
    /// none.
    Root {
        /// An address shifted by 112 bits.
        cell: u16,
        /// Its number.
        node: u32,
    },
    /// IPv6: a node of the trie.
    Node {
        /// Its number.
        at: u32,
        /// What it becomes.
        node: Node,
    },
    /// IPv6: a next hop that a node names.
    NodeHop {
        /// Its number.
        at: u32,
        /// What it becomes.
        hop: HopId,
    },
    /// A next hop.
    Hop {
        /// Its number.
        id: HopId,
        /// What it becomes; `None`: no route names it any more.
        hop: Option<Hop>,
    },
    /// A neighbour.
    Neighbour {
        /// On the link of this port.
        port: PortId,
        /// Whose link address it is.
        address: IpAddr,
        /// What is known; `None`: nothing any more.
        neighbour: Option<Neighbour>,
    },
    /// A port that packets may come from and leave by.
    Interface {
        /// Which one.
        port: PortId,
        /// What it is; `None`: it is not used any more.
        interface: Option<Interface>,
    },
    /// An address of this host, which nobody else sends from.
    Own {
        /// Which one.
        address: IpAddr,
        /// Whether it is ours, or is not any more.
        is_ours: bool,
    },
    /// An address that functions before the router send from, and nobody outside.
    Made {
        /// Which one.
        address: IpAddr,
        /// Whether they do, or do not any more.
        is_made: bool,
    },
    /// An address of those from which others answer, too: what [`Fib::is_answer`] names.
    Served {
        /// Which one.
        address: Ipv4Addr,
        /// Whether they do, or do not any more.
        is_served: bool,
    },
}

impl FibChange {
    /// Entries that one change writes at most: what keeps the time between two batches short.
    pub const ENTRIES_MAX: u16 = 4096;

    /// Entries that it writes, for whoever bounds the work between two batches.
    pub const fn entries(&self) -> u16 {
        match self {
            Self::Fill24 { count, .. }
            | Self::Fill8 { count, .. }
            | Self::Fill7 { count, .. }
            | Self::Fill16 { count, .. } => *count,
            _ => 1,
        }
    }
}

/// All tables of one data thread.
#[derive(Clone, Debug)]
pub struct Fib {
    /// IPv4 destinations.
    pub four: Fib4,
    /// IPv6 destinations.
    pub six: Fib6,
    hops: Vec<Option<Hop>>,
    neighbours: Neighbours,
    /// By the number of the port.
    interfaces: Vec<Option<Interface>>,
    /// In order.
    own4: Vec<u32>,
    own6: Vec<u128>,
    made4: Vec<u32>,
    made6: Vec<u128>,
    served: Vec<u32>,
}

impl Fib {
    /// Tables without routes. `seed` keeps others from choosing addresses that collide in the table
    /// of neighbours.
    pub fn new(seed: u64) -> Self {
        let mut hops = vec![None; usize::from(HopId::LIMIT)];
        hops[HopId::NO_ROOM.index()] = Some(Hop { to: NextHop::NoRoom, neighbour: None });
        Self {
            four: Fib4::new(),
            six: Fib6::new(),
            hops,
            neighbours: Neighbours::new(seed),
            interfaces: Vec::new(),
            own4: Vec::new(),
            own6: Vec::new(),
            made4: Vec::new(),
            made6: Vec::new(),
            served: Vec::new(),
        }
    }

    /// Takes one step. Places outside the tables are left alone: the control side names none.
    pub fn apply(&mut self, change: &FibChange) {
        match *change {
            FibChange::Fill24 { first, count, hop } => self.four.fill24(first, count, hop),
            FibChange::Extend { slot, group } => self.four.extend(slot, group),
            FibChange::Fill8 { group, first, count, hop } => {
                self.four.fill8(group, first, count, hop);
            }
            FibChange::Fill7 { first, count, hop } => self.four.fill7(first, count, hop),
            FibChange::Fill16 { .. }
            | FibChange::Root { .. }
            | FibChange::Node { .. }
            | FibChange::NodeHop { .. } => self.six.apply(change),
            FibChange::Hop { id, hop } => {
                if let Some(place) = self.hops.get_mut(id.index()) {
                    *place = hop;
                }
            }
            FibChange::Neighbour { port, address, neighbour } => {
                self.neighbours.set(port, address, neighbour);
            }
            FibChange::Interface { port, interface } => {
                let index = usize::from(port.0);
                if index >= self.interfaces.len() {
                    self.interfaces.resize(index + 1, None);
                }
                self.interfaces[index] = interface;
            }
            FibChange::Own { address: IpAddr::V4(four), is_ours } => {
                set_member(&mut self.own4, four.to_bits(), is_ours);
            }
            FibChange::Own { address: IpAddr::V6(six), is_ours } => {
                set_member(&mut self.own6, six.to_bits(), is_ours);
            }
            FibChange::Made { address: IpAddr::V4(four), is_made } => {
                set_member(&mut self.made4, four.to_bits(), is_made);
            }
            FibChange::Made { address: IpAddr::V6(six), is_made } => {
                set_member(&mut self.made6, six.to_bits(), is_made);
            }
            FibChange::Served { address, is_served } => {
                set_member(&mut self.served, address.to_bits(), is_served);
            }
        }
    }

    /// The next hop of that number.
    #[inline]
    pub fn hop(&self, id: HopId) -> Option<&Hop> {
        self.hops.get(id.index())?.as_ref()
    }

    /// What is known of a neighbour.
    #[inline]
    pub fn neighbour(&self, port: PortId, address: IpAddr) -> Option<Neighbour> {
        self.neighbours.get(port, address)
    }

    /// What a port is; nothing for one that is not used.
    #[inline]
    pub fn interface(&self, port: PortId) -> Option<&Interface> {
        self.interfaces.get(usize::from(port.0))?.as_ref()
    }

    /// Whether the IPv4 address is this host's.
    #[inline]
    pub fn is_own4(&self, address: u32) -> bool {
        self.own4.binary_search(&address).is_ok()
    }

    /// Whether the IPv6 address is this host's.
    #[inline]
    pub fn is_own6(&self, address: u128) -> bool {
        self.own6.binary_search(&address).is_ok()
    }

    /// Whether a packet of that protocol may be what a server says in the name of the service that
    /// has the address: of TCP, UDP or ICMP. Nobody else has its tunnels.
    #[inline]
    pub fn is_answer(&self, address: Ipv4Addr, protocol: u8) -> bool {
        matches!(protocol, ipv4::ICMP | ipv4::TCP | ipv4::UDP)
            && self.served.binary_search(&address.to_bits()).is_ok()
    }

    /// Whether functions before the router send from the address, and nobody outside, but for
    /// [`Self::is_answer`].
    #[inline]
    pub fn is_made(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(four) => self.made4.binary_search(&four.to_bits()).is_ok(),
            IpAddr::V6(six) => self.made6.binary_search(&six.to_bits()).is_ok(),
        }
    }
}

/// Puts `value` into a sorted list, or takes it out.
fn set_member<T: Ord>(list: &mut Vec<T>, value: T, is_member: bool) {
    match (list.binary_search(&value), is_member) {
        (Err(place), true) => list.insert(place, value),
        (Ok(place), false) => {
            list.remove(place);
        }
        _ => {}
    }
}
