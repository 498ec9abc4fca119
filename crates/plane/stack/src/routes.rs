//! The ways by which segments leave: learned from those that come, one number each.
//!
//! A peer's segments come from one link address: its own or its router's. So there are few routes
//! and very many flows, and a flow knows its route by a number (see [`tcp::Segment`]).

use std::collections::BTreeMap;

use base::PortId;
use shm::Frame;

/// Bytes of a link header: Ethernet with at most two tags.
const HEADER_MAX: usize = 22;

/// Routes at once, at most: peers that invent link addresses do not get more memory than this.
const ROUTES_MAX: usize = 4096;

/// By which port a packet leaves, and what stands before its IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The port.
    pub port: PortId,
    /// A tag that the port puts in.
    pub vlan_tci: u16,
    /// The link header, at most 22 bytes.
    pub header: Vec<u8>,
}

/// The interface of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLink {
    /// The port.
    pub port: PortId,
    /// Its interface's number.
    pub interface: u32,
    /// The link address that packets of ours leave with.
    pub mac: [u8; 6],
    /// What it was before, if it has changed.
    pub mac_before: Option<[u8; 6]>,
}

/// Where a segment goes, and what stands before its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    port: PortId,
    /// A tag that the port takes out and puts in again.
    vlan_tci: u16,
    header: [u8; HEADER_MAX],
    header_bytes: u8,
}

impl Route {
    /// The way back to where `frame` came from.
    #[inline]
    pub(crate) fn back(frame: &Frame) -> Option<Self> {
        let meta = frame.meta();
        let header_bytes = usize::from(meta.l3_offset);
        let (link, _) = frame.bytes().split_at_checked(header_bytes)?;
        let mut header = [0; HEADER_MAX];
        header.get_mut(..header_bytes)?.copy_from_slice(link);
        let (to, from) = header.split_at_mut(6);
        to.swap_with_slice(from.get_mut(..6)?);
        let (port, vlan_tci) = (meta.port, meta.vlan_tci);
        Some(Self { port, vlan_tci, header, header_bytes: header_bytes as u8 })
    }

    /// The port that it leads by.
    pub(crate) fn port(&self) -> PortId {
        self.port
    }

    /// A way that somebody else has found.
    pub(crate) fn of_next_hop(next_hop: &NextHop) -> Option<Self> {
        let mut header = [0; HEADER_MAX];
        header.get_mut(..next_hop.header.len())?.copy_from_slice(&next_hop.header);
        let (port, vlan_tci) = (next_hop.port, next_hop.vlan_tci);
        Some(Self { port, vlan_tci, header, header_bytes: next_hop.header.len() as u8 })
    }

    /// The same from the present link address of its port, if it was from the one before.
    pub(crate) fn readdressed(mut self, link: &PortLink) -> Self {
        let from = self.header.get_mut(6..12).filter(|_| self.header_bytes >= 12);
        if let Some(from) = from.filter(|_| self.port == link.port)
            && link.mac_before.is_some_and(|before| *from == before)
        {
            from.copy_from_slice(&link.mac);
        }
        self
    }

    /// The link header.
    #[inline]
    pub(crate) fn header(&self) -> &[u8] {
        self.header.get(..usize::from(self.header_bytes)).unwrap_or_default()
    }

    /// Writes into the frame's meta where it leaves.
    #[inline]
    pub(crate) fn direct(&self, frame: &mut Frame) {
        let meta = frame.meta_mut();
        (meta.port, meta.vlan_tci) = (self.port, self.vlan_tci);
    }
}

/// All that are known.
#[derive(Debug)]
pub(crate) struct Routes {
    /// By number; nothing: free.
    routes: Vec<Option<Route>>,
    numbers: BTreeMap<Route, u32>,
    free: Vec<u32>,
    /// Where the last looks led: by the last byte of the peer's link address.
    recent: Box<[u32; 256]>,
}

impl Routes {
    pub(crate) fn new() -> Self {
        let (routes, numbers) = (Vec::new(), BTreeMap::new());
        Self { routes, numbers, free: Vec::new(), recent: Box::new([0; 256]) }
    }

    /// The number of the way back to where `frame` came from; nothing when there are too many.
    #[inline]
    pub(crate) fn learn(&mut self, frame: &Frame) -> Option<u32> {
        let route = Route::back(frame)?;
        let slot = usize::from(route.header[5]);
        let recent = self.recent[slot];
        if self.get(recent) == Some(&route) {
            return Some(recent);
        }
        let number = self.number(route)?;
        self.recent[slot] = number;
        Some(number)
    }

    /// The number of a route, whether it was known or not.
    #[cold]
    pub(crate) fn number(&mut self, route: Route) -> Option<u32> {
        if let Some(number) = self.numbers.get(&route) {
            return Some(*number);
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.routes.len() < ROUTES_MAX => {
                self.routes.push(None);
                self.routes.len() as u32 - 1
            }
            None => return None,
        };
        self.routes[number as usize] = Some(route);
        self.numbers.insert(route, number);
        Some(number)
    }

    /// The route of that number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Route> {
        self.routes.get(number as usize)?.as_ref()
    }

    /// A port's link address has changed: what left with the one before leaves with that from now
    /// on, also where the peer still sends to the one before or nothing at all.
    #[cold]
    pub(crate) fn readdress(&mut self, link: &PortLink) {
        for (number, place) in (0_u32..).zip(&mut self.routes) {
            let Some(before) = *place else { continue };
            let now = before.readdressed(link);
            if now != before {
                *place = Some(now);
                forget(&mut self.numbers, &before, number);
                // It may be known by another number already: then it has two.
                self.numbers.entry(now).or_insert(number);
            }
        }
    }

    /// Forgets every route that `each_used` does not name.
    pub(crate) fn sweep(&mut self, each_used: impl FnOnce(&mut dyn FnMut(u32))) {
        let mut is_used = vec![false; self.routes.len()];
        each_used(&mut |number| {
            if let Some(used) = is_used.get_mut(number as usize) {
                *used = true;
            }
        });
        let unused = (0_u32..).zip(&mut self.routes).zip(is_used).filter(|(_, used)| !used);
        for ((number, place), _) in unused {
            if let Some(route) = place.take() {
                forget(&mut self.numbers, &route, number);
                self.free.push(number);
            }
        }
    }
}

/// The route has that number no more.
fn forget(numbers: &mut BTreeMap<Route, u32>, route: &Route, number: u32) {
    if numbers.get(route) == Some(&number) {
        numbers.remove(route);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(number: u32) -> Route {
        let mut header = [0; HEADER_MAX];
        header[2..6].copy_from_slice(&number.to_be_bytes());
        Route { port: PortId(0), vlan_tci: 0, header, header_bytes: 14 }
    }

    #[test]
    fn invented_link_addresses_fill_the_table_until_those_without_a_flow_are_swept() {
        let mut routes = Routes::new();
        let numbers: Vec<_> = (0..).map_while(|number| routes.number(route(number))).collect();
        assert_eq!(numbers.len(), ROUTES_MAX);
        assert_eq!(routes.number(route(7)), Some(7), "a known one is still known");
        routes.sweep(|mark| [7, 9, u32::MAX].into_iter().for_each(mark));
        assert_eq!((routes.get(7), routes.get(8)), (Some(&route(7)), None));
        let new = routes.number(route(100_000)).expect("there is room again");
        assert_eq!(routes.get(new), Some(&route(100_000)));
        assert_eq!(routes.number(route(9)), Some(9));
    }

    #[test]
    fn a_changed_link_address_is_the_source_of_every_route_by_its_port_and_of_no_other() {
        let with = |port: u16, peer: u8, own: u8| {
            let mut header = [0; HEADER_MAX];
            (header[5], header[11]) = (peer, own);
            Route { port: PortId(port), vlan_tci: 0, header, header_bytes: 14 }
        };
        let mut routes = Routes::new();
        let known = [with(0, 1, 7), with(0, 2, 7), with(0, 3, 6), with(1, 1, 7), with(0, 2, 8)];
        let numbers = known.map(|route| routes.number(route).expect("there is room"));
        let mac = |last| [0, 0, 0, 0, 0, last];
        let (port, interface) = (PortId(0), 3);
        routes.readdress(&PortLink { port, interface, mac: mac(8), mac_before: Some(mac(7)) });
        let now = numbers.map(|number| *routes.get(number).expect("it is in use"));
        // The third is a macvlan's, say, and the last was learned after the change.
        let wanted = [with(0, 1, 8), with(0, 2, 8), with(0, 3, 6), with(1, 1, 7), with(0, 2, 8)];
        assert_eq!(now, wanted);
        assert_eq!(routes.number(with(0, 1, 8)), Some(numbers[0]), "no other number for it");
        // One that has two numbers goes with the second.
        routes.sweep(|mark| numbers[2..].iter().for_each(|number| mark(*number)));
        assert_eq!(routes.number(with(0, 2, 8)), Some(numbers[4]));
        assert_eq!(routes.get(numbers[4]), Some(&with(0, 2, 8)));
        assert_eq!(routes.get(numbers[1]), None);
    }
}
