//! UDP sockets of the kernel that are connected, and whose they are: what a peer sends to one is
//! its own, whoever shares its port and is served there.
//!
//! The kernel walks its whole table for one look, and tells all sockets there are: anybody can make
//! that long, and at one port the time grows with the square of their number. So a look ends when
//! its time is over, the next one comes only after many times as long as it took, and is about half
//! as many ports. A port that cannot be told even alone is crowded: nobody knows whose it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use base::Nanos;
use sys::socket_owner::Owner;

use super::rights::Holder;

/// So long a look may take, of a processor, for each family. What the kernel has begun with it
/// finishes: a step is one walk of its table, a few milliseconds where there are 100,000 sockets.
pub(super) const LOOK_MAX: Nanos = Nanos::from_millis(5);

/// So old may a look be that answers for a socket that is offered. Whoever connects later is seen
/// with the next look.
const FRESH_FOR: Nanos = Nanos::from_millis(100);

/// From one look to the next it is at least this many times as long as the look took of a
/// processor: a twentieth of the attach server's time.
const REST_TIMES: u64 = 20;

/// All ports.
const ALL: RangeInclusive<u16> = 0..=u16::MAX;

/// The sockets of the last looks.
#[derive(Debug)]
pub(super) struct Connected {
    /// By port, own address and user: no more than those, however many sockets there are. Its
    /// cookie; none if there are several.
    sockets: BTreeMap<(u16, IpAddr, u32), Option<u64>>,
    /// Ports of which the kernel could not tell all in time.
    crowded: BTreeSet<u16>,
    /// The next look begins at this port or behind it, and is about no more than `width`.
    next: u16,
    width: u32,
    last: Option<Look>,
}

/// One look.
#[derive(Clone, Copy, Debug)]
struct Look {
    begun: Nanos,
    /// Of a processor.
    took: Nanos,
    /// The kernel has told all sockets, of all ports.
    is_whole: bool,
}

impl Default for Connected {
    fn default() -> Self {
        let (sockets, crowded) = (BTreeMap::new(), BTreeSet::new());
        Self { sockets, crowded, next: 0, width: count(&ALL), last: None }
    }
}

impl Connected {
    /// Whether it is too early for the next look.
    pub(super) fn is_resting(&self, now: Nanos) -> bool {
        let rests = |look: Look| {
            let rest = Nanos(look.took.0.saturating_mul(REST_TIMES)).max(FRESH_FOR);
            now.since(look.begun) < rest
        };
        self.last.is_some_and(rests)
    }

    /// Whether the last look answers for whatever is offered.
    pub(super) fn answers(&self, now: Nanos) -> bool {
        self.is_resting(now) && self.last.is_some_and(|look| look.is_whole)
    }

    /// The ports that the next look is to be about: of those that are served, and of those that are
    /// crowded, which are looked at alone.
    pub(super) fn next_ports(&self, served: &BTreeSet<u16>) -> RangeInclusive<u16> {
        if self.next == 0 && self.width == count(&ALL) && self.crowded.is_empty() {
            return ALL;
        }
        let from = |port: u16| {
            let first = [served, &self.crowded].map(|of| of.range(port..).next().copied());
            first.into_iter().flatten().min()
        };
        let first = from(self.next).or_else(|| from(0)).unwrap_or(self.next);
        if self.crowded.contains(&first) {
            return first..=first;
        }
        let width = u16::try_from(self.width - 1).unwrap_or(u16::MAX);
        let crowded = self.crowded.range(first..).next();
        let last = crowded.map_or(u16::MAX, |port| port - 1);
        first..=first.saturating_add(width).min(last)
    }

    /// A look at these ports was begun at a moment and took so long. What it has found; none: the
    /// time was over, so that there may be others.
    pub(super) fn note(
        &mut self,
        ports: RangeInclusive<u16>,
        found: Option<Vec<(SocketAddr, Owner)>>,
        begun: Nanos,
        took: Nanos,
    ) {
        let is_whole = found.is_some() && ports == ALL;
        self.last = Some(Look { begun, took, is_whole });
        let is_alone = ports.start() == ports.end();
        match found {
            Some(found) => {
                self.replace(&ports, found);
                self.width = (self.width * 2).min(count(&ALL));
            }
            None if is_alone => {
                self.replace(&ports, Vec::new());
                self.crowded.insert(*ports.start());
            }
            None => {
                self.width = count(&ports) / 2;
                self.next = *ports.start();
                return;
            }
        }
        self.next = ports.end().wrapping_add(1);
    }

    /// A look was tried, and the kernel did not tell: what was known stays.
    pub(super) fn note_failure(&mut self, begun: Nanos, took: Nanos) {
        self.last = Some(Look { begun, took, is_whole: false });
    }

    /// These are all that there are at these ports.
    pub(super) fn replace(&mut self, ports: &RangeInclusive<u16>, found: Vec<(SocketAddr, Owner)>) {
        self.crowded.retain(|port| !ports.contains(port));
        self.sockets.retain(|(port, ..), _| !ports.contains(port));
        for (at, owner) in found {
            let first = self.sockets.entry((at.port(), at.ip(), owner.uid));
            let cookie = first.or_insert(Some(owner.cookie));
            *cookie = cookie.filter(|first| *first == owner.cookie);
        }
    }

    /// Whether nobody knows who is connected at a port.
    pub(super) fn is_crowded(&self, port: u16) -> bool {
        self.crowded.contains(&port)
    }

    /// Whether another than the holder had a socket at one of these addresses: whoever made that
    /// one, and may have passed it on, is another than the user who has it now, unless they share
    /// the port.
    pub(super) fn has_others(
        &self,
        holder: Holder,
        uid: u32,
        port: u16,
        addresses: &[IpAddr],
    ) -> bool {
        self.has_any(port, addresses, |owner, cookie| {
            owner != uid && !holder.shares_with(owner) && cookie != Some(holder.cookie())
        })
    }

    /// Whether another user than `uid` had a socket at one of these addresses.
    pub(super) fn has_other_users(&self, uid: u32, port: u16, addresses: &[IpAddr]) -> bool {
        self.has_any(port, addresses, |owner, _| owner != uid)
    }

    fn has_any(
        &self,
        port: u16,
        addresses: &[IpAddr],
        is_it: impl Fn(u32, Option<u64>) -> bool,
    ) -> bool {
        addresses.iter().any(|address| {
            let mut all = self.sockets.range((port, *address, 0)..=(port, *address, u32::MAX));
            all.any(|((.., owner), cookie)| is_it(*owner, *cookie))
        })
    }
}

/// How many ports these are.
fn count(ports: &RangeInclusive<u16>) -> u32 {
    u32::from(*ports.end()) + 1 - u32::from(*ports.start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 2], port))
    }

    fn owner(cookie: u64, uid: u32) -> Owner {
        Owner { cookie, uid, is_listener: false }
    }

    fn found(sockets: impl IntoIterator<Item = (SocketAddr, Owner)>) -> Connected {
        let mut connected = Connected::default();
        connected.note(ALL, Some(sockets.into_iter().collect()), Nanos::ZERO, Nanos::ZERO);
        connected
    }

    #[test]
    fn the_next_look_comes_twenty_times_as_late_as_the_last_one_took() {
        let mut connected = Connected::default();
        let ms = Nanos::from_millis;
        assert!(!connected.is_resting(ms(0)), "nobody has looked");
        for (took_ms, rest_ms) in [(1, 100), (30, 600), (1000, 20_000)] {
            connected.note(ALL, Some(vec![]), ms(1000), ms(took_ms));
            let (before, at) = (ms(1000 + rest_ms - 1), ms(1000 + rest_ms));
            assert!(connected.answers(before) && !connected.is_resting(at), "{took_ms}");
        }
    }

    #[test]
    fn a_look_that_fails_is_rested_after_as_one_that_does_not() {
        let ms = Nanos::from_millis;
        let own = Holder::alone(7, 1000);
        let mut connected = found([(at(53), owner(8, 9))]);
        connected.note_failure(ms(1000), ms(30));
        assert!(connected.is_resting(ms(1599)) && !connected.is_resting(ms(1600)));
        assert!(!connected.answers(ms(1001)), "it has told nothing");
        assert!(connected.has_others(own, 1000, 53, &[at(53).ip()]), "what was known stays");
        connected.note(ALL, None, ms(1000), ms(30));
        assert!(connected.is_resting(ms(1599)) && !connected.is_resting(ms(1600)));
        assert!(!connected.answers(ms(1001)), "it has not told all");
    }

    /// Looks at everything until `served` was looked at, where the kernel cannot tell what includes
    /// `crowd`; how many looks that takes.
    fn look_around(connected: &mut Connected, served: &BTreeSet<u16>, crowd: &[u16]) -> usize {
        let mut left = served.clone();
        for looks in 0..1000 {
            if left.is_empty() {
                return looks;
            }
            let ports = connected.next_ports(served);
            let is_told = !crowd.iter().any(|port| ports.contains(port));
            if is_told || ports.start() == ports.end() {
                left.retain(|port| !ports.contains(port));
            }
            let sockets = served.iter().filter(|port| ports.contains(port));
            let sockets = sockets.map(|port| (at(*port), owner(u64::from(*port), 9)));
            let found = is_told.then(|| sockets.collect());
            connected.note(ports, found, Nanos::ZERO, Nanos::ZERO);
        }
        panic!("{left:?} are never looked at");
    }

    #[test]
    fn a_port_that_cannot_be_told_is_found_and_leaves_the_others_known() {
        let served: BTreeSet<u16> = [0, 52, 53, 54, 5000, u16::MAX].into();
        let own = Holder::alone(7, 1000);
        for crowd in [&[53][..], &[0], &[u16::MAX], &[0, 53, 60, u16::MAX]] {
            let mut connected = Connected::default();
            let looks = look_around(&mut connected, &served, crowd);
            assert!(looks <= 40 * crowd.len(), "{looks} for {crowd:?}");
            for port in &served {
                let is_crowded = crowd.contains(port);
                assert_eq!(connected.is_crowded(*port), is_crowded, "{port} of {crowd:?}");
                let has = connected.has_others(own, 1000, *port, &[at(*port).ip()]);
                assert_eq!(has, !is_crowded, "{port} of {crowd:?}");
            }
            let again = look_around(&mut connected, &served, crowd);
            assert!(again <= 20 * crowd.len() + 20, "{again} for {crowd:?}");
            // They are gone: soon all are looked at together.
            while connected.next_ports(&served) != ALL {
                look_around(&mut connected, &served, &[]);
            }
            assert!(!served.iter().any(|port| connected.is_crowded(*port)));
        }
    }

    #[test]
    fn one_port_is_looked_at_alone_and_the_others_stay_as_they_were() {
        let own = Holder::alone(7, 1000);
        let has =
            |connected: &Connected, port| connected.has_others(own, 1000, port, &[at(port).ip()]);
        let mut connected = found([(at(53), owner(8, 9)), (at(54), owner(9, 9))]);
        connected.replace(&(53..=53), vec![]);
        assert!(!has(&connected, 53) && has(&connected, 54));
        connected.replace(&(53..=53), vec![(at(53), owner(8, 9))]);
        assert!(has(&connected, 53) && has(&connected, 54));
    }

    #[test]
    fn others_are_whoever_is_neither_the_holder_nor_its_user() {
        let ip = [at(0).ip()];
        let has = |connected: &Connected, port| {
            connected.has_others(Holder::alone(7, 1000), 1001, port, &ip)
        };
        // The user's own; the holder itself, by whoever has it now; and other ports.
        let own = found([(at(53), owner(2, 1001)), (at(53), owner(7, 9))]);
        assert!(!has(&own, 53) && !has(&own, 54));
        let mut two = found([(at(53), owner(7, 9)), (at(53), owner(8, 9)), (at(53), owner(7, 9))]);
        assert!(has(&two, 53) && !has(&two, 54));
        let other = vec![(at(54), owner(3, 0))];
        two.note(ALL, Some(other), Nanos::ZERO, Nanos::ZERO);
        assert!(!has(&two, 53) && has(&two, 54), "those before are gone");
        assert!(!two.has_others(Holder::alone(7, 1000), 1001, 54, &[[10, 0, 0, 3].into()]));
    }

    #[test]
    fn a_connected_socket_of_root_is_anothers_to_a_user_whom_root_gave_a_socket() {
        let (ip, of_root) = ([at(53).ip()], found([(at(53), owner(8, 0))]));
        assert!(of_root.has_others(Holder::alone(7, 0), 1001, 53, &ip));
        // SO_REUSEPORT: the kernel itself divides what comes among the sockets of that user.
        assert!(!of_root.has_others(Holder::sharing(7, 0), 1001, 53, &ip));
    }
}
