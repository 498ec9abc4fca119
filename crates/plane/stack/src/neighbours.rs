//! How datagrams leave: by the next hop that the kernel's routes and neighbours name.
//!
//! A frame says only what whoever sent it wanted to say. So the way that a datagram came by is used
//! for answers just until the slow side has asked the kernel, and it never takes the place of what
//! the kernel has said: a forged source address redirects nobody's datagrams.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::Nanos;

use crate::routes::{NextHop, Route};

/// Addresses at once, at most. Beyond that the last in order is forgotten, and asked for when it is
/// needed again.
const NEIGHBOURS_MAX: usize = 4096;

/// A next hop that was silent for this long may lead nowhere by now: it is used, and asked
/// for again.
const FRESH_FOR: Nanos = Nanos::from_secs(30);

/// The next hops that are known.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: BTreeMap<IpAddr, Known>,
    /// Addresses that the slow side was asked for, and when.
    asked: BTreeMap<IpAddr, Nanos>,
    /// What it is to be asked next.
    questions: Vec<IpAddr>,
}

#[derive(Debug)]
struct Known {
    route: Route,
    /// Our address on it.
    local: IpAddr,
    heard_at: Nanos,
}

/// A question that got no answer for this long, or a negative one, may be asked again.
const ASK_EVERY: Nanos = Nanos::from_secs(4);

impl Neighbours {
    /// A datagram from `remote` to `local` came by that route, and somebody has it. It is used
    /// until the kernel was asked.
    pub(crate) fn learn(&mut self, remote: IpAddr, local: IpAddr, route: Route, now: Nanos) {
        // A next hop without an answer has no route; one that is being asked for will have one
        // soon.
        let was_asked = self.was_asked(remote, now);
        match self.known.get_mut(&remote) {
            Some(known) if known.route == route => known.heard_at = now,
            // It may have moved, or another pretends to be it: the kernel knows.
            Some(_) => self.ask(remote, now),
            None if was_asked => {}
            None => {
                self.insert(remote, Known { route, local, heard_at: now });
                self.ask(remote, now);
            }
        }
    }

    fn was_asked(&self, remote: IpAddr, now: Nanos) -> bool {
        self.asked.get(&remote).is_some_and(|at| now < *at + ASK_EVERY)
    }

    /// The slow side has found a next hop, or that there is none.
    pub(crate) fn set(&mut self, remote: IpAddr, next_hop: Option<(&NextHop, IpAddr)>, now: Nanos) {
        match next_hop.and_then(|(next_hop, local)| Some((Route::of_next_hop(next_hop)?, local))) {
            Some((route, local)) => {
                self.asked.remove(&remote);
                self.insert(remote, Known { route, local, heard_at: now });
            }
            // A question without an answer is not asked again at once.
            None => {
                self.known.remove(&remote);
                self.note_asked(remote, now);
            }
        }
    }

    /// Asks for the next hop of an address: once, however many datagrams wait for it.
    fn ask(&mut self, remote: IpAddr, now: Nanos) {
        if self.was_asked(remote, now) {
            return;
        }
        self.note_asked(remote, now);
        self.questions.push(remote);
    }

    fn note_asked(&mut self, remote: IpAddr, now: Nanos) {
        if self.asked.len() >= NEIGHBOURS_MAX {
            self.asked.pop_first();
        }
        self.asked.insert(remote, now);
    }

    /// What the slow side is to be asked: the addresses whose ways nobody knows, or that nothing
    /// was heard from for long.
    pub(crate) fn questions(&mut self) -> impl Iterator<Item = IpAddr> + use<'_> {
        self.questions.drain(..)
    }

    fn insert(&mut self, remote: IpAddr, known: Known) {
        if self.known.len() >= NEIGHBOURS_MAX && !self.known.contains_key(&remote) {
            self.known.pop_last();
        }
        self.known.insert(remote, known);
    }

    /// By which route, and from which address, a datagram goes to `remote`; `wanted`, if it is
    /// specified, is its sender's.
    pub(crate) fn find(
        &mut self,
        remote: IpAddr,
        wanted: IpAddr,
        now: Nanos,
    ) -> Option<(Route, IpAddr)> {
        let known = self.known.get(&remote);
        let found = known
            .map(|known| (known.route, if wanted.is_unspecified() { known.local } else { wanted }));
        if known.is_none_or(|known| now.since(known.heard_at) > FRESH_FOR) {
            self.ask(remote, now);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use base::PortId;

    use super::*;

    #[test]
    fn a_next_hop_that_nothing_came_by_for_long_is_used_and_asked_for_once() {
        let mut neighbours = Neighbours::default();
        let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
        let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
        let at = Nanos::from_secs;
        let ask = |neighbours: &mut Neighbours, now| {
            let is_found = neighbours.find(remote, local, now).is_some();
            (is_found, neighbours.questions().count())
        };
        assert_eq!(ask(&mut neighbours, at(1)), (false, 1));
        assert_eq!(ask(&mut neighbours, at(2)), (false, 0), "it was asked already");
        neighbours.set(remote, None, at(3));
        assert_eq!(ask(&mut neighbours, at(3)), (false, 0), "it was told that there is none");
        assert_eq!(ask(&mut neighbours, at(7)), (false, 1), "perhaps there is by now");
        neighbours.set(remote, Some((&next_hop, local)), at(7));
        assert_eq!(ask(&mut neighbours, at(31)), (true, 0));
        assert_eq!(ask(&mut neighbours, at(38)), (true, 1), "it is thirty seconds old");
        assert_eq!(ask(&mut neighbours, at(39)), (true, 0));
        let route = Route::of_next_hop(&next_hop).expect("a short header");
        neighbours.set(remote, Some((&next_hop, local)), at(39));
        neighbours.learn(remote, local, route, at(50));
        assert_eq!(ask(&mut neighbours, at(79)), (true, 0), "something came by it");
    }

    #[test]
    fn a_forged_frame_redirects_nobody_and_only_has_the_kernel_asked() {
        let mut neighbours = Neighbours::default();
        let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
        let [honest, forged] = [1, 2].map(|mac| NextHop {
            port: PortId(1),
            vlan_tci: 0,
            header: [&[mac; 12][..], &[8, 0]].concat(),
        });
        let route = |next_hop| Route::of_next_hop(next_hop).expect("a short header");
        let at = Nanos::from_secs;
        let found = |neighbours: &mut Neighbours, now| {
            neighbours.find(remote, local, now).map(|(route, _)| route)
        };
        // Of what nobody knows, the first word is believed until the kernel has answered.
        neighbours.learn(remote, local, route(&forged), at(1));
        assert_eq!(neighbours.questions().collect::<Vec<_>>(), [remote]);
        neighbours.set(remote, Some((&honest, local)), at(2));
        assert_eq!(found(&mut neighbours, at(2)), Some(route(&honest)));
        for second in 3..7 {
            neighbours.learn(remote, local, route(&forged), at(second));
            assert_eq!(found(&mut neighbours, at(second)), Some(route(&honest)));
        }
        assert_eq!(neighbours.questions().count(), 1, "it is asked for again, not often");
        // What the kernel has no route to is not learned from frames either.
        neighbours.set(remote, None, at(7));
        neighbours.learn(remote, local, route(&forged), at(7));
        assert_eq!(found(&mut neighbours, at(7)), None);
    }
}
