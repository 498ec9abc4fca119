//! How datagrams leave: by the way that one from that address came, or that the slow side has found.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::Nanos;

use super::front::Way;
use super::routes::Route;

/// Addresses at once, at most: whoever is heard of last after that is forgotten first.
const WAYS_MAX: usize = 4096;

/// The ways that are known: the number of a route, and our address on it.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: BTreeMap<IpAddr, (Route, IpAddr)>,
    /// Addresses that the slow side was asked for, and when.
    asked: BTreeMap<IpAddr, Nanos>,
}

/// A question that was not answered for so long, or in vain, may be asked again.
const ASK_EVERY: Nanos = Nanos::from_secs(4);

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
            Some((route, local)) => {
                self.asked.remove(&remote);
                self.insert(remote, route, local);
            }
            // What was asked in vain is not asked again at once.
            None => _ = self.known.remove(&remote),
        }
    }

    /// Whether the slow side is to be asked for the way to an address now: once, however many datagrams wait for it.
    pub(super) fn ask(&mut self, remote: IpAddr, now: Nanos) -> bool {
        if self.asked.get(&remote).is_some_and(|at| now < *at + ASK_EVERY) {
            return false;
        }
        if self.asked.len() >= WAYS_MAX {
            self.asked.pop_first();
        }
        self.asked.insert(remote, now);
        true
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
