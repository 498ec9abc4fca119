//! When a neighbour is asked for: at once, and again while packets want it, at a pace that is
//! bounded.
//!
//! The kernel sends a question a second to a neighbour that packets want, for as long as they do
//! (retrans_time_ms of net.ipv4.neigh and net.ipv6.neigh). Packets may want one thousands of times
//! in that second, and whoever scans a link makes them want neighbours without end.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::{Nanos, PortId};

/// Neighbours that are asked for in one go, and in one second for packets.
pub(super) const ASKS_MAX: usize = 512;
/// Between two questions about one neighbour, and what [`ASKS_MAX`] counts in.
const PAUSE: Nanos = Nanos::from_secs(1);

/// The questions of the last second: at most twice [`ASKS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Asks {
    asked: BTreeMap<(PortId, IpAddr), Nanos>,
    /// When the second began in which `count` were asked.
    began: Nanos,
    count: usize,
}

impl Asks {
    /// Whether to ask for this neighbour now. A refusal is for good: whatever wants it has to want
    /// it again.
    pub(super) fn allow(&mut self, port: PortId, address: IpAddr, now: Nanos) -> bool {
        if now >= self.began + PAUSE {
            (self.began, self.count) = (now, 0);
            self.asked.retain(|_, at| now < *at + PAUSE);
        }
        let asked = self.asked.get(&(port, address));
        if self.count >= ASKS_MAX || asked.is_some_and(|at| now < *at + PAUSE) {
            return false;
        }
        self.count += 1;
        self.asked.insert((port, address), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_asked_for_once_a_second_for_as_long_as_packets_want_it() {
        let mut asks = Asks::default();
        let address = IpAddr::from([10, 0, 0, 1]);
        let begin = 5_000;
        let allowed = (begin..begin + 60_000)
            .filter(|at| asks.allow(PortId(0), address, Nanos::from_millis(*at)))
            .collect::<Vec<u64>>();
        assert_eq!(allowed, (begin..begin + 60_000).step_by(1000).collect::<Vec<u64>>());
        let at = Nanos::from_millis(begin + 59_001);
        assert!(asks.allow(PortId(1), address, at), "the same address on another link");
    }

    #[test]
    fn a_scan_of_a_link_makes_a_bounded_number_of_questions_and_leaves_little_behind() {
        let mut asks = Asks::default();
        let mut allowed = 0;
        for number in 0..200_000u32 {
            let now = Nanos::from_secs(9) + Nanos::from_micros(u64::from(number) * 50);
            let address = IpAddr::from(number.to_be_bytes());
            allowed += usize::from(asks.allow(PortId(0), address, now));
            assert!(asks.asked.len() <= 2 * ASKS_MAX);
        }
        assert_eq!(allowed, 10 * ASKS_MAX, "in ten seconds");
    }
}
