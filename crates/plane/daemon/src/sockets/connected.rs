//! UDP sockets of the kernel that are connected, and whose they are: what a peer sends to one is
//! its own, whoever shares its port and is served there.
//!
//! The kernel walks its whole table for one look, which anybody can make long: so one look is for
//! all sockets that are served and for all that are offered meanwhile, and the next one comes only
//! after many times as long as it took.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use base::Nanos;
use sys::socket_owner::Owner;

use super::rights::Holder;

/// So old may a look be that answers for a socket that is offered. Whoever connects later is seen
/// with the next look.
const FRESH_FOR: Nanos = Nanos::from_millis(100);

/// From one look to the next it is at least so many times as long as the look took: a twentieth of
/// the attach server's time.
const REST_TIMES: u64 = 20;

/// And so long at most: a look may take long because others have the processor.
const REST_MAX: Nanos = Nanos::from_secs(5);

/// The sockets of the last look.
#[derive(Debug, Default)]
pub(super) struct Connected {
    /// By port, own address and user: no more than those, however many sockets there are. Its
    /// cookie; none if there are several.
    sockets: BTreeMap<(u16, IpAddr, u32), Option<u64>>,
    /// When the last look began, and how long it took.
    last: Option<(Nanos, Nanos)>,
}

impl Connected {
    /// Whether the last look still answers for what is offered.
    pub(super) fn is_fresh(&self, now: Nanos) -> bool {
        let fresh = |(at, took): (Nanos, Nanos)| now.since(at) < rest(took).max(FRESH_FOR);
        self.last.is_some_and(fresh)
    }

    /// A look that was begun at a moment and took so long has found these.
    pub(super) fn note(
        &mut self,
        found: impl IntoIterator<Item = (SocketAddr, Owner)>,
        begun: Nanos,
        took: Nanos,
    ) {
        self.sockets.clear();
        for (at, owner) in found {
            let first = self.sockets.entry((at.port(), at.ip(), owner.uid));
            let cookie = first.or_insert(Some(owner.cookie));
            *cookie = cookie.filter(|first| *first == owner.cookie);
        }
        self.last = Some((begun, took));
    }

    /// Whether another than the holder and its users had a socket at one of these addresses.
    pub(super) fn has_others(
        &self,
        holder: Holder,
        uid: u32,
        port: u16,
        addresses: &[IpAddr],
    ) -> bool {
        let is_others = |address: &IpAddr| {
            let all = self.sockets.range((port, *address, 0)..=(port, *address, u32::MAX));
            let mut all = all.map(|((.., owner), cookie)| (*owner, *cookie));
            all.any(|(owner, cookie)| {
                owner != uid && owner != holder.user() && cookie != Some(holder.cookie())
            })
        };
        addresses.iter().any(is_others)
    }
}

/// How long no other look follows one that took so long.
fn rest(took: Nanos) -> Nanos {
    Nanos(took.0.saturating_mul(REST_TIMES)).min(REST_MAX)
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

    #[test]
    fn the_next_look_comes_twenty_times_as_late_as_the_last_one_took() {
        let mut connected = Connected::default();
        let ms = Nanos::from_millis;
        assert!(!connected.is_fresh(ms(0)), "nobody has looked");
        connected.note([], ms(1000), ms(1));
        assert!(connected.is_fresh(ms(1099)) && !connected.is_fresh(ms(1100)));
        connected.note([], ms(1000), ms(30));
        assert!(connected.is_fresh(ms(1599)) && !connected.is_fresh(ms(1600)));
        connected.note([], ms(1000), Nanos::FAR_FUTURE);
        assert!(connected.is_fresh(ms(5999)) && !connected.is_fresh(ms(6000)));
    }

    #[test]
    fn others_are_whoever_is_neither_the_holder_nor_a_user_of_it() {
        let mut connected = Connected::default();
        let ip = [at(0).ip()];
        let has = |connected: &Connected, port| {
            connected.has_others(Holder::alone(7, 1000), 1001, port, &ip)
        };
        // The users' own; the holder itself, by whoever has it now; and other ports.
        let own = [(at(53), owner(1, 1000)), (at(53), owner(2, 1001)), (at(53), owner(7, 9))];
        connected.note(own, Nanos::ZERO, Nanos::ZERO);
        assert!(!has(&connected, 53) && !has(&connected, 54));
        let two = [(at(53), owner(7, 9)), (at(53), owner(8, 9)), (at(53), owner(7, 9))];
        connected.note(two, Nanos::ZERO, Nanos::ZERO);
        assert!(has(&connected, 53) && !has(&connected, 54));
        connected.note([(at(54), owner(3, 0))], Nanos::ZERO, Nanos::ZERO);
        assert!(!has(&connected, 53) && has(&connected, 54), "those before are gone");
        assert!(!connected.has_others(Holder::alone(7, 1000), 1001, 54, &[[10, 0, 0, 3].into()]));
    }
}
