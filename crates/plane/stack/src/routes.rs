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
                self.numbers.remove(&route);
                self.free.push(number);
            }
        }
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
}
