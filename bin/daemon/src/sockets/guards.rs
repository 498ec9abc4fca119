//! Addresses of connections that were opened here: taken from the kernel before the first segment leaves, and
//! given back when no late segment can come any more.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base::Nanos;
use port::xdp::{Destination, Protocol};
use sys::port_guard::PortGuard;

use crate::apps::Claims;

/// What packets to `address` are for the kernel's program.
pub(super) fn destination(protocol: Protocol, address: SocketAddr) -> Destination {
    Destination { protocol, address: Some(address.ip()), port: Some(address.port()) }
}

/// A connection's own address and its peer's.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A socket: the application's number, its slot, the generation.
pub(super) type SocketKey = (u16, u32, u32);

/// Names of connections that are over, held at once, at most: each is a descriptor. Beyond that the one that would go
/// first goes early, as in Linux where the table of TIME-WAIT is full (net.ipv4.tcp_max_tw_buckets).
const LEAVING_MAX: usize = 4096;

/// What is held for a connection.
struct Hold {
    ends: Ends,
    /// Nobody else on this host gets the port.
    _guard: Option<PortGuard>,
}

/// Everything that is held.
#[derive(Default)]
pub(super) struct Holds {
    open: BTreeMap<SocketKey, Hold>,
    /// The names that are taken, and whether the port was chosen for the program.
    names: BTreeMap<Ends, bool>,
    /// By when they go; the number tells those of one moment apart.
    leaving: BTreeMap<(Nanos, u64), Hold>,
    count: u64,
}

impl Holds {
    /// A connection is about to be opened; its destination is claimed already.
    pub(super) fn add(
        &mut self,
        key: SocketKey,
        ends: Ends,
        is_automatic: bool,
        guard: Option<PortGuard>,
    ) {
        self.names.insert(ends, is_automatic);
        self.open.insert(key, Hold { ends, _guard: guard });
    }

    /// Whether a connection of that name is there, or ended not long ago, for which the port was chosen.
    pub(super) fn has_chosen(&self, ends: Ends) -> bool {
        self.names.get(&ends).is_some_and(|is_automatic| *is_automatic)
    }

    /// Whether it is held for that socket.
    #[cfg(test)]
    fn has(&self, key: SocketKey) -> bool {
        self.open.contains_key(&key)
    }

    /// The connection is over; its name stays taken until `until`.
    pub(super) fn finish(&mut self, key: SocketKey, until: Nanos) {
        if let Some(hold) = self.open.remove(&key) {
            self.leave(hold, until);
        }
    }

    /// All connections of an application are over.
    pub(super) fn finish_all(&mut self, app: u16, until: Nanos) {
        let keys: Vec<SocketKey> =
            self.open.range((app, 0, 0)..=(app, u32::MAX, u32::MAX)).map(|(key, _)| *key).collect();
        for key in keys {
            self.finish(key, until);
        }
    }

    fn leave(&mut self, hold: Hold, until: Nanos) {
        self.count += 1;
        self.leaving.insert((until, self.count), hold);
    }

    /// Gives back what is due.
    pub(super) fn tend(&mut self, now: Nanos, claims: &mut Claims) {
        let mut count = self.leaving.len();
        while let Some(first) = self.leaving.first_entry() {
            if first.key().0 > now && count <= LEAVING_MAX {
                return;
            }
            count -= 1;
            let (local, remote) = first.remove().ends;
            self.names.remove(&(local, remote));
            claims.remove(destination(Protocol::Tcp, local));
        }
    }

    /// When the next one is due.
    pub(super) fn next_deadline(&self) -> Nanos {
        self.leaving.first_key_value().map_or(Nanos::FAR_FUTURE, |((until, _), _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(port: u16) -> Ends {
        let local = SocketAddr::from(([10, 0, 0, 1], port));
        (local, SocketAddr::from(([10, 0, 0, 2], 80)))
    }

    #[test]
    fn a_name_stays_taken_until_no_late_segment_can_come() {
        let mut claims = Claims::new(Vec::new(), Vec::new());
        let mut holds = Holds::default();
        let of_port = |port| destination(Protocol::Tcp, name(port).0);
        for slot in 0..3 {
            claims.add(of_port(slot as u16)).expect("there is no interface to refuse");
            holds.add((1, slot, 7), name(slot as u16), slot != 2, None);
        }
        let at = Nanos::from_secs;
        holds.finish((1, 0, 7), at(60));
        holds.finish((1, 0, 7), at(1));
        assert!(!holds.has((1, 0, 7)) && holds.has((1, 1, 7)));
        holds.finish_all(1, at(50));
        assert_eq!(holds.next_deadline(), at(50));
        holds.tend(at(50), &mut claims);
        assert!(claims.has(of_port(0)) && !claims.has(of_port(1)));
        assert!(!claims.has(of_port(2)));
        assert!(holds.has_chosen(name(0)) && !holds.has_chosen(name(1)));
        holds.tend(at(60), &mut claims);
        assert!(!claims.has(of_port(0)) && !holds.has_chosen(name(0)));
        assert_eq!(holds.next_deadline(), Nanos::FAR_FUTURE);
    }

    #[test]
    fn names_of_connections_that_are_over_are_not_held_without_end() {
        let mut claims = Claims::new(Vec::new(), Vec::new());
        let mut holds = Holds::default();
        for slot in 0..LEAVING_MAX as u32 + 100 {
            holds.add((1, slot, 1), name(slot as u16), true, None);
            holds.finish((1, slot, 1), Nanos(1_000_000 + u64::from(slot)));
        }
        holds.tend(Nanos(0), &mut claims);
        assert_eq!(holds.leaving.len(), LEAVING_MAX);
        assert!(!holds.has_chosen(name(99)) && holds.has_chosen(name(100)), "the oldest went");
    }
}
