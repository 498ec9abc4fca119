//! The kernel's routes as the router's: which entry of those for the same destinations counts, and
//! what changes with each piece of news.
//!
//! Tables `main` and `local` are read, as a kernel without rules of its own would; among entries
//! for the same destinations those of `local` come first, then the least metric, then the kernel's
//! own order. An entry of several next hops (multipath) is its first one whose link is up; of IPv6
//! entries of one destination and metric, among which the kernel takes turns, the first is used.
//! Nothing is asked of the kernel here: who follows it passes news on, and a dump when
//! [`KernelRoutes::is_in_doubt`] says so.

mod lists;

use std::collections::BTreeMap;
use std::net::IpAddr;

use calisto_nf::{NextHop, Prefix};
use sys::net_changes::Placed;
use sys::route::{Entry, EntryKind, TABLE_MAIN};

use crate::ports::Ports;
use lists::{Alternative, ListId, Lists};

/// What the router is to do from now on with one prefix; `None`: it has no route any more.
pub type RouteChange = (Prefix, Option<NextHop>);

/// All entries that could count.
#[derive(Clone, Debug)]
pub struct KernelRoutes {
    ports: Ports,
    routes: BTreeMap<Prefix, ListId>,
    lists: Lists,
    is_in_doubt: bool,
}

/// What of the kernel's tables the router does not do as the kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviations {
    /// Routes of several next hops, of which the first is used.
    pub multipath: usize,
    /// Routes by interfaces that are no ports of the chain.
    pub elsewhere: usize,
}

impl KernelRoutes {
    /// Nothing known yet.
    pub fn new(ports: Ports) -> Self {
        let (routes, lists) = (BTreeMap::new(), Lists::default());
        Self { ports, routes, lists, is_in_doubt: false }
    }

    /// Whether news left open what the tables are: a dump settles it.
    pub const fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// Says whether a dump was told in pieces that do not fit together.
    pub const fn set_in_doubt(&mut self, is_in_doubt: bool) {
        self.is_in_doubt = is_in_doubt;
    }

    /// How many prefixes have routes, of IPv4 and of IPv6.
    pub fn len(&self) -> (usize, usize) {
        let six = self.routes.keys().filter(|prefix| prefix.address().is_ipv6()).count();
        (self.routes.len() - six, six)
    }

    /// Takes an entry of a dump, which comes in the order in which entries count.
    pub fn add(&mut self, entry: &Entry) {
        if let Some((prefix, alternative)) = self.read(entry) {
            self.place(prefix, alternative, Placed::Last);
        }
    }

    /// Takes a new entry.
    pub fn set(&mut self, entry: &Entry, placed: Placed) -> Option<RouteChange> {
        let (prefix, alternative) = self.read(entry)?;
        // A second next hop of the same IPv6 route is told as if it were one more entry.
        if placed == Placed::Last && prefix.address().is_ipv6() {
            self.is_in_doubt = true;
        }
        let before = self.first(prefix);
        self.place(prefix, alternative, placed);
        changed(prefix, before, self.first(prefix))
    }

    /// Takes the end of an entry.
    pub fn remove(&mut self, entry: &Entry) -> Option<RouteChange> {
        let (prefix, gone) = self.read(entry)?;
        let Some(&id) = self.routes.get(&prefix) else {
            self.is_in_doubt = true;
            return None;
        };
        let before = self.first(prefix);
        let mut list = self.lists.get(id).to_vec();
        let is_it = |other: &Alternative| {
            other.rank() == gone.rank()
                && (other.interface, other.gateway) == (gone.interface, gone.gateway)
        };
        match list.iter().position(is_it) {
            Some(place) => {
                // It may have gone whole, or only this one of its next hops.
                self.is_in_doubt |= list[place].has_more_hops;
                list.remove(place);
            }
            None => self.is_in_doubt = true,
        }
        if list.is_empty() {
            self.routes.remove(&prefix);
        } else {
            self.routes.insert(prefix, self.lists.take(&list));
        }
        self.lists.give(id);
        changed(prefix, before, self.first(prefix))
    }

    /// Takes the place of `self` with what a fresh dump has filled, and passes on what that
    /// changes.
    pub fn replace(&mut self, fresh: Self, mut each: impl FnMut(RouteChange)) {
        let Self { routes: old, lists: before, .. } = std::mem::replace(self, fresh);
        let mut old = old.into_iter().peekable();
        let mut new = self.routes.iter().peekable();
        let first = |lists: &Lists, id| lists.get(id).first().map(|first| first.to);
        loop {
            let prefix = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some((prefix, _)), None) => *prefix,
                (None, Some((prefix, _))) => **prefix,
                (Some((one, _)), Some((other, _))) => *one.min(other),
            };
            let was = old.next_if(|(at, _)| *at == prefix).map(|(_, id)| id);
            let is = new.next_if(|(at, _)| **at == prefix).map(|(_, id)| *id);
            let was = was.and_then(|id| first(&before, id));
            let is = is.and_then(|id| first(&self.lists, id));
            changed(prefix, was, is).into_iter().for_each(&mut each);
        }
    }

    /// Passes every prefix and its next hop on.
    pub fn each(&self, mut each: impl FnMut(Prefix, NextHop)) {
        for (prefix, id) in &self.routes {
            if let Some(first) = self.lists.get(*id).first() {
                each(*prefix, first.to);
            }
        }
    }

    /// What to tell whoever expects the kernel's very behaviour.
    pub fn deviations(&self) -> Deviations {
        let mut deviations = Deviations::default();
        for first in self.routes.values().filter_map(|id| self.lists.get(*id).first()) {
            let is_port = self.ports.with_index(first.interface).is_some();
            deviations.multipath += usize::from(first.has_more_hops);
            deviations.elsewhere += usize::from(first.is_main && first.interface != 0 && !is_port);
        }
        deviations
    }

    /// Where packets of exactly this prefix go.
    fn first(&self, prefix: Prefix) -> Option<NextHop> {
        let id = self.routes.get(&prefix)?;
        self.lists.get(*id).first().map(|first| first.to)
    }

    /// Puts an entry among those of its prefix.
    fn place(&mut self, prefix: Prefix, alternative: Alternative, placed: Placed) {
        let Some(id) = self.routes.get_mut(&prefix) else {
            self.routes.insert(prefix, self.lists.take(&[alternative]));
            return;
        };
        let mut list = self.lists.get(*id).to_vec();
        place(&mut list, alternative, placed);
        let before = std::mem::replace(id, self.lists.take(&list));
        self.lists.give(before);
    }

    /// An entry as one of ours; `None`: it never counts for a router.
    fn read(&self, entry: &Entry) -> Option<(Prefix, Alternative)> {
        let is_main = match entry.table {
            TABLE_MAIN => true,
            TABLE_LOCAL => false,
            _ => return None,
        };
        let prefix = Prefix::of(entry.destination, entry.prefix_bits);
        // A host sends to groups and on its own link; nobody forwards that.
        let is_own_link = match entry.destination {
            IpAddr::V4(four) => four.is_multicast() && entry.prefix_bits >= 4,
            IpAddr::V6(six) => {
                (six.is_multicast() && entry.prefix_bits >= 8)
                    || (six.is_unicast_link_local() && entry.prefix_bits >= 10)
            }
        };
        if is_own_link || entry.tos != 0 || !entry.is_alive {
            return None;
        }
        let alternative = Alternative {
            is_main,
            metric: entry.metric,
            interface: entry.interface,
            gateway: entry.gateway,
            has_more_hops: entry.further_hops > 0,
            to: self.target(entry),
        };
        Some((prefix, alternative))
    }

    fn target(&self, entry: &Entry) -> NextHop {
        match (entry.kind, self.ports.with_index(entry.interface), entry.gateway) {
            (EntryKind::Blackhole, ..) => NextHop::Blackhole,
            (EntryKind::Unreachable, ..) => NextHop::Unreachable,
            // Behind `main` there is only `default`, which has nothing to say either.
            (EntryKind::Throw, ..) => NextHop::NoRoute,
            (EntryKind::Prohibit, ..) => NextHop::Prohibit,
            // By an interface that is no port only the kernel could send.
            (EntryKind::Here, ..) | (EntryKind::Unicast, None, _) => NextHop::Local,
            (EntryKind::Unicast, Some(port), None) => NextHop::OnLink { port },
            (EntryKind::Unicast, Some(port), Some(address)) => NextHop::Gateway { port, address },
        }
    }
}

const TABLE_LOCAL: u32 = 255;

/// Puts an entry into a list.
fn place(list: &mut Vec<Alternative>, alternative: Alternative, placed: Placed) {
    let rank = alternative.rank();
    // What a dump has shown may be told once more.
    list.retain(|other| *other != alternative);
    let first = list.iter().position(|other| other.rank() >= rank).unwrap_or(list.len());
    let is_there = list.get(first).is_some_and(|other| other.rank() == rank);
    match placed {
        Placed::Instead if is_there => list[first] = alternative,
        Placed::First | Placed::Instead => list.insert(first, alternative),
        Placed::Last => {
            let behind = list.iter().position(|other| other.rank() > rank).unwrap_or(list.len());
            list.insert(behind, alternative);
        }
    }
}

fn changed(prefix: Prefix, before: Option<NextHop>, after: Option<NextHop>) -> Option<RouteChange> {
    (before != after).then_some((prefix, after))
}

#[cfg(test)]
mod tests;
