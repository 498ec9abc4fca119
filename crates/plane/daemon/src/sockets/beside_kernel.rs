//! Ports on which the kernel may still hold earlier connections: of a time without a daemon, or of
//! a program that was left to the kernel. Those go on in the kernel, which the interfaces' programs
//! ask about each packet as long as there may be any ([`port::xdp::Ours`]).

use std::collections::BTreeMap;

use base::Nanos;
use port::xdp::Destination;
use sys::SysError;

use crate::apps::Claims;

/// Time between two looks, whatever is looked for: the kernel walks its whole table each time.
const REST: Nanos = Nanos::from_millis(10);

/// Time between two looks at a port that has connections, and how much more for each of them, so
/// that looking takes a small share of the time however many there are.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);
const MORE_EACH_MS: u64 = 1;
/// From here on it makes no difference.
const MANY: usize = 60_000;

/// Ports that may have connections of the kernel's.
pub(super) struct BesideKernel {
    ports: BTreeMap<u16, Waiting>,
    rests_until: Nanos,
    count_at: fn(u16) -> Result<usize, SysError>,
}

struct Waiting {
    destinations: Vec<Destination>,
    look_at: Nanos,
}

impl Default for BesideKernel {
    fn default() -> Self {
        let count_at = sys::tcp_connections::count_at;
        Self { ports: BTreeMap::new(), rests_until: Nanos::ZERO, count_at }
    }
}

impl BesideKernel {
    /// A destination was taken with [`Claims::add_beside_kernel`].
    pub(super) fn watch(&mut self, destination: Destination) {
        let Some(port) = destination.port else { return };
        let new = || Waiting { destinations: Vec::new(), look_at: Nanos::ZERO };
        let waiting = self.ports.entry(port).or_insert_with(new);
        waiting.look_at = Nanos::ZERO;
        if !waiting.destinations.contains(&destination) {
            waiting.destinations.push(destination);
        }
    }

    /// Looks at the port whose time has come first, if one's has: one a call.
    pub(super) fn tend(&mut self, now: Nanos, claims: &Claims) {
        let first = self.ports.iter_mut().min_by_key(|(_, waiting)| waiting.look_at);
        let Some((&port, waiting)) = first else { return };
        if now < waiting.look_at.max(self.rests_until) {
            return;
        }
        waiting.destinations.retain(|destination| claims.has(*destination));
        if waiting.destinations.is_empty() {
            self.ports.remove(&port);
            return;
        }
        self.rests_until = now + REST;
        // What the kernel does not tell is as if there were some.
        let count = (self.count_at)(port).unwrap_or(1);
        if count == 0 {
            waiting.destinations.iter().for_each(|destination| claims.take_all(*destination));
            self.ports.remove(&port);
        } else {
            let more = Nanos::from_millis(MORE_EACH_MS * count.min(MANY) as u64);
            waiting.look_at = now + LOOK_EVERY + more;
        }
    }

    /// When to look next.
    pub(super) fn next_deadline(&self) -> Nanos {
        let first = self.ports.values().map(|waiting| waiting.look_at).min();
        first.map_or(Nanos::FAR_FUTURE, |first| first.max(self.rests_until))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use port::xdp::Protocol;

    use super::super::guards::destination;
    use super::*;

    static CONNECTIONS: AtomicUsize = AtomicUsize::new(2);

    #[test]
    fn a_port_is_looked_at_until_its_last_connection_is_gone_and_never_without_rest() {
        let mut claims = Claims::new(Vec::new(), Vec::new());
        let mut beside = BesideKernel {
            count_at: |_| Ok(CONNECTIONS.load(Ordering::Relaxed)),
            ..BesideKernel::default()
        };
        let at = |port| {
            let address = std::net::SocketAddr::from(([10, 0, 0, 1], port));
            destination(Protocol::Tcp, address)
        };
        for port in [80, 81] {
            claims.add_beside_kernel(at(port)).expect("there is no interface to refuse");
            beside.watch(at(port));
        }
        let start = Nanos::from_secs(5);
        assert!(beside.next_deadline() <= start, "at once");
        beside.tend(start, &claims);
        assert_eq!(beside.next_deadline(), start + REST, "the other one");
        beside.tend(start + REST, &claims);
        let again = start + LOOK_EVERY + Nanos::from_millis(2);
        assert_eq!(beside.next_deadline(), again);
        CONNECTIONS.store(1_000_000, Ordering::Relaxed);
        beside.tend(again, &claims);
        let at_last = again + Nanos::from_secs(61);
        assert_eq!(beside.ports[&80].look_at, at_last);
        claims.remove(at(81));
        beside.tend(again + REST, &claims);
        assert!(!beside.ports.contains_key(&81), "nobody wants it any more");
        CONNECTIONS.store(0, Ordering::Relaxed);
        beside.tend(at_last, &claims);
        assert_eq!(beside.next_deadline(), Nanos::FAR_FUTURE);
    }
}
