//! Next hops: by which port, from which address and to which link address a packet goes, as the
//! kernel has it.
//!
//! Looked up once and kept until the kernel says that something has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use base::{Nanos, PortId};
use rustix::io::Errno;
use stack::{NextHop, PortLink};
use sys::SysError;
use sys::neighbour::{self, NeighbourState};
use sys::net_changes::{Changed, NetChanges};
use sys::route::{self, RouteKind};

use super::reach::{Cause, Looks};

/// Next hops that are kept, at most.
const KEPT_MAX: usize = 65_536;

/// A neighbour in use is asked for again so often: our traffic never confirms it to the kernel.
const REFRESH_EVERY: Nanos = Nanos::from_secs(10);

/// So long after its last use it is.
const REFRESH_FOR: Nanos = Nanos::from_secs(300);

/// Neighbours that are refreshed, at most, and link addresses that are remembered.
const USED_MAX: usize = 4096;

/// So long a link address is used without another look: most destinations are behind one router.
const KNOWN_FOR: Nanos = Nanos::from_secs(1);

/// A port of ours, as the way to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) interface: u32,
    pub(crate) port: PortId,
    pub(crate) mac: [u8; 6],
}

/// Where a destination is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whither {
    /// On this host.
    Local {
        /// The address that a connection to there comes from.
        source: IpAddr,
    },
    /// Behind one of our ports.
    Out(Hop),
    /// Behind another interface, or nowhere.
    Elsewhere,
    /// All of a group or a link.
    Many { is_broadcast: bool },
}

/// The next hop of a route: the link it is behind, and the address whose link address is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) link: Link,
    pub(super) source: IpAddr,
    /// Whose link address is needed.
    pub(super) next: IpAddr,
    pub(super) mtu: Option<u32>,
    is_v4: bool,
}

/// What is known of a next hop's link address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Known(NextHop),
    /// It has been asked for.
    Asked,
    /// Nobody has looked: whoever wants it has used up its share of looks.
    Unasked,
    /// It does not answer.
    Unreachable,
}

/// All next hops that were looked up.
pub(super) struct Neighbours {
    links: Vec<Link>,
    /// What the link address of a port was before.
    macs_before: BTreeMap<PortId, [u8; 6]>,
    changes: NetChanges,
    kept: BTreeMap<(IpAddr, Option<IpAddr>), Whither>,
    /// Addresses of our interfaces.
    addresses: Vec<IpAddr>,
    /// Those of all interfaces of this host.
    host_addresses: Vec<IpAddr>,
    /// Next hops in use: when last used and last asked for.
    used: BTreeMap<(u32, IpAddr), (Nanos, Nanos)>,
    /// Link addresses of next hops, and when they were found.
    macs: BTreeMap<(u32, IpAddr), ([u8; 6], Nanos)>,
    looks: Looks,
}

impl Neighbours {
    /// The next hops by `links`, in this thread's network namespace.
    pub(super) fn new(links: Vec<Link>) -> Result<Self, SysError> {
        // First, so that no change goes unheard.
        let changes = NetChanges::watch()?;
        let mut neighbours = Self {
            links,
            macs_before: BTreeMap::new(),
            changes,
            kept: BTreeMap::new(),
            addresses: Vec::new(),
            host_addresses: Vec::new(),
            used: BTreeMap::new(),
            macs: BTreeMap::new(),
            looks: Looks::default(),
        };
        neighbours.read_addresses();
        Ok(neighbours)
    }

    /// An interface of ours has another number or link address now.
    pub(super) fn renumber(&mut self, from: u32, to: u32, mac: [u8; 6]) {
        for link in self.links.iter_mut().filter(|link| link.interface == from) {
            if link.mac != mac {
                self.macs_before.insert(link.port, link.mac);
            }
            (link.interface, link.mac) = (to, mac);
        }
        self.kept.clear();
        self.macs.clear();
        self.read_addresses();
    }

    fn read_addresses(&mut self) {
        // Interfaces that are gone have none.
        let all = sys::interface::all_addresses().unwrap_or_default();
        let is_ours = |at: u32| self.links.iter().any(|link| link.interface == at);
        let ours = all.iter().filter(|(at, _)| is_ours(*at)).map(|(_, address)| *address);
        self.addresses = sorted(ours);
        self.host_addresses = sorted(all.iter().map(|(_, address)| *address));
    }

    /// What each port's interface is.
    pub(super) fn interfaces(&self) -> Arc<[PortLink]> {
        let of = |link: &Link| PortLink {
            port: link.port,
            interface: link.interface,
            mac: link.mac,
            mac_before: self.macs_before.get(&link.port).copied(),
        };
        self.links.iter().map(of).collect()
    }

    /// The addresses of our interfaces.
    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The addresses of this host, of all its interfaces.
    pub(super) fn host_addresses(&self) -> &[IpAddr] {
        &self.host_addresses
    }

    /// What has changed since the last call. What depends on it is forgotten.
    pub(super) fn hear(&mut self) -> Changed {
        let changed = self.changes.take();
        if changed.links || changed.addresses || changed.routes {
            self.kept.clear();
        }
        if changed.links {
            self.macs.clear();
        }
        if changed.links || changed.addresses {
            self.read_addresses();
        }
        changed
    }

    /// Where `destination` is, seen from `source` if that is settled.
    pub(super) fn find(&mut self, destination: IpAddr, source: Option<IpAddr>) -> Whither {
        if let Some(found) = self.kept.get(&(destination, source)) {
            return *found;
        }
        let found = self.look_up(destination, source);
        if self.kept.len() >= KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert((destination, source), found);
        found
    }

    /// The same for datagrams. None: nobody has looked, because `uid` has used up its share of
    /// looks for that cause.
    pub(super) fn find_within(
        &mut self,
        destination: IpAddr,
        (uid, cause): (u32, Cause),
        now: Nanos,
    ) -> Option<Whither> {
        let is_kept = self.kept.contains_key(&(destination, None));
        (is_kept || self.looks.take(uid, cause, now)).then(|| self.find(destination, None))
    }

    fn look_up(&self, destination: IpAddr, source: Option<IpAddr>) -> Whither {
        if destination.is_multicast() {
            return Whither::Many { is_broadcast: false };
        }
        // Without a route the kernel's own connect says best what is wrong.
        let Ok(found) = route::lookup(destination, source, None) else { return Whither::Elsewhere };
        let from = source.or(found.source);
        match found.kind {
            RouteKind::Local => Whither::Local { source: from.unwrap_or(destination) },
            RouteKind::Broadcast => Whither::Many { is_broadcast: true },
            RouteKind::Multicast => Whither::Many { is_broadcast: false },
            RouteKind::Unicast | RouteKind::Anycast => {
                let link = self.links.iter().find(|link| link.interface == found.interface);
                match (link, from) {
                    (Some(link), Some(source)) if self.addresses.contains(&source) => {
                        Whither::Out(Hop {
                            link: *link,
                            source,
                            next: found.next_hop(destination),
                            mtu: found.mtu,
                            is_v4: destination.is_ipv4(),
                        })
                    }
                    _ => Whither::Elsewhere,
                }
            }
        }
    }

    /// The link address of a hop; asks for it when it is not known. Only what was not known lately
    /// costs `uid` one of its looks for that cause.
    pub(super) fn reach(&mut self, hop: &Hop, (uid, cause): (u32, Cause), now: Nanos) -> Reach {
        let (interface, next) = (hop.link.interface, hop.next);
        if let Some((mac, found_at)) = self.macs.get(&(interface, next)).copied()
            && now.since(found_at) < KNOWN_FOR
        {
            self.note_use(interface, next, now);
            return Reach::Known(hop.next_hop(mac));
        }
        if !self.looks.take(uid, cause, now) {
            return Reach::Unasked;
        }
        let known = neighbour::lookup(interface, next).ok().flatten();
        let mac = known.and_then(|known| known.usable_mac());
        let is_sure = known.is_some_and(|known| {
            matches!(known.state, NeighbourState::Fresh | NeighbourState::Fixed)
        });
        let mut asked = Ok(());
        if !is_sure {
            asked = neighbour::resolve(interface, next);
        }
        if let Some(mac) = mac {
            self.note_use(interface, next, now);
            self.note_mac((interface, next), mac, now);
            return Reach::Known(hop.next_hop(mac));
        }
        match (known.map(|known| known.state), asked) {
            (_, Err(_)) => Reach::Unreachable,
            _ => Reach::Asked,
        }
    }

    fn note_mac(&mut self, hop: (u32, IpAddr), mac: [u8; 6], now: Nanos) {
        if self.macs.len() >= USED_MAX {
            self.macs.retain(|_, (_, found_at)| now.since(*found_at) < KNOWN_FOR);
        }
        if self.macs.len() < USED_MAX {
            self.macs.insert(hop, (mac, now));
        }
    }

    fn note_use(&mut self, interface: u32, next: IpAddr, now: Nanos) {
        if let Some((used, _)) = self.used.get_mut(&(interface, next)) {
            *used = now;
        } else if self.used.len() < USED_MAX {
            self.used.insert((interface, next), (now, now));
        }
    }

    /// Asks again for neighbours in use whose time has come.
    pub(super) fn refresh(&mut self, now: Nanos) {
        self.used.retain(|_, (used, _)| now.since(*used) < REFRESH_FOR);
        for ((interface, next), (_, asked)) in &mut self.used {
            if now.since(*asked) >= REFRESH_EVERY {
                *asked = now;
                let _ = neighbour::resolve(*interface, *next);
            }
        }
    }

    /// When that is due.
    pub(super) fn next_deadline(&self) -> Nanos {
        let due = self.used.values().map(|(_, asked)| *asked + REFRESH_EVERY);
        due.min().unwrap_or(Nanos::FAR_FUTURE)
    }
}

impl Hop {
    /// The way, once the next hop's link address is known.
    fn next_hop(&self, mac: [u8; 6]) -> NextHop {
        let ether_type: u16 = if self.is_v4 { 0x0800 } else { 0x86dd };
        let header = [&mac[..], &self.link.mac, &ether_type.to_be_bytes()].concat();
        NextHop { port: self.link.port, vlan_tci: 0, header }
    }
}

/// Each address once, in order.
fn sorted(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let all: BTreeSet<IpAddr> = addresses.collect();
    all.into_iter().collect()
}

impl AsFd for Neighbours {
    /// Readable when something may have changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

/// What a program is told whose peer's link address cannot be found.
pub(super) const UNREACHABLE: Errno = Errno::HOSTUNREACH;
