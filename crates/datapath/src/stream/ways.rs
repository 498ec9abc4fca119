//! How datagrams leave: by the way that one from that address came, or that the slow side has found.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::front::Way;
use super::routes::Route;

/// Addresses at once, at most: whoever is heard of last after that is forgotten first.
const WAYS_MAX: usize = 4096;

/// The ways that are known: the number of a route, and our address on it.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: BTreeMap<IpAddr, (Route, IpAddr)>,
}

impl Ways {
    /// A datagram from `remote` to `local` came by that route.
    pub(super) fn learn(&mut self, remote: IpAddr, local: IpAddr, route: Route) {
        match self.known.get_mut(&remote) {
            Some(known) => *known = (route, local),
            None => self.insert(remote, route, local),
        }
    }

    /// The slow side has found a way, or that there is none.
    pub(super) fn set(&mut self, remote: IpAddr, way: Option<(&Way, IpAddr)>) {
        match way.and_then(|(way, local)| Some((Route::of_way(way)?, local))) {
            Some((route, local)) => self.insert(remote, route, local),
            None => _ = self.known.remove(&remote),
        }
    }

    fn insert(&mut self, remote: IpAddr, route: Route, local: IpAddr) {
        if self.known.len() >= WAYS_MAX && !self.known.contains_key(&remote) {
            self.known.pop_last();
        }
        self.known.insert(remote, (route, local));
    }

    /// By which route, and from which address, a datagram goes to `remote`; `wanted`, if it is specified, is its sender's.
    pub(super) fn find(&self, remote: IpAddr, wanted: IpAddr) -> Option<(Route, IpAddr)> {
        let (route, local) = self.known.get(&remote)?;
        Some((*route, if wanted.is_unspecified() { *local } else { wanted }))
    }
}
