//! Which long datagrams a UDP socket has sent lately, so that a router which says that one was too
//! long for its next link can be believed (RFC 5927 section 7.2 asks so much of TCP).
//!
//! An ICMP error quotes the ports and the length of what it is about, and no number that only the
//! sender knows. Who forges one has to guess all of these, and gains little: what is as long then
//! leaves by the kernel, which has always believed them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Datagrams that are remembered, about: the newest of those that share a place.
const REMEMBERED: usize = 64;

/// Bytes of IP packets that every path takes, as far as Linux believes routers
/// (`net.ipv4.route.min_pmtu`; RFC 8200 section 5).
pub(crate) const fn path_mtu_min(is_ipv6: bool) -> u16 {
    if is_ipv6 { 1280 } else { 552 }
}

/// Bytes of the IP header and of UDP's.
pub(crate) const fn header_bytes(is_ipv6: bool) -> u16 {
    if is_ipv6 { 40 + 8 } else { 20 + 8 }
}

/// Marks of datagrams; 0: none.
#[derive(Debug)]
pub(crate) struct RecentlySent([AtomicU32; REMEMBERED]);

impl RecentlySent {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    /// One with that payload has left, to there.
    pub(crate) fn note(&self, remote: SocketAddr, payload_bytes: usize) {
        let is_ipv6 = remote.is_ipv6();
        if payload_bytes > usize::from(path_mtu_min(is_ipv6) - header_bytes(is_ipv6)) {
            let mark = mark_of(remote, payload_bytes);
            self.0[mark as usize % REMEMBERED].store(mark, Ordering::Relaxed);
        }
    }

    /// Whether one has, lately, that was longer than every path takes.
    pub(crate) fn has(&self, remote: SocketAddr, payload_bytes: usize) -> bool {
        let mark = mark_of(remote, payload_bytes);
        self.0[mark as usize % REMEMBERED].load(Ordering::Relaxed) == mark
    }
}

fn mark_of(remote: SocketAddr, payload_bytes: usize) -> u32 {
    let bits = match remote {
        SocketAddr::V4(v4) => u128::from(v4.ip().to_bits()),
        SocketAddr::V6(v6) => v6.ip().to_bits(),
    };
    let ends = u64::from(remote.port()) << 32 | payload_bytes as u64;
    let mut mixed = bits as u64 ^ ((bits >> 64) as u64).rotate_left(32);
    for word in [ends, 0] {
        mixed = (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 32;
    }
    mixed as u32 | 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_datagrams_are_remembered_by_whom_they_went_to_and_how_long_they_were() {
        let sent = RecentlySent::new();
        let [one, other, six] = ["10.0.0.1:53", "10.0.0.1:54", "[fd00::1]:53"]
            .map(|at| at.parse().expect("an address"));
        sent.note(one, 1472);
        sent.note(six, 1452);
        assert!(sent.has(one, 1472) && sent.has(six, 1452));
        assert!(!sent.has(one, 1471) && !sent.has(other, 1472) && !sent.has(six, 1472));
        // What every path takes no router can have found too long.
        sent.note(one, 524);
        sent.note(six, 1232);
        assert!(!sent.has(one, 524) && !sent.has(six, 1232));
        sent.note(one, 525);
        assert!(sent.has(one, 525));
        let far = |port: u16| SocketAddr::new(other.ip(), port);
        (0..10_000).for_each(|port| sent.note(far(port), 1400));
        let kept = (0..10_000).filter(|port| sent.has(far(*port), 1400)).count();
        assert!((REMEMBERED / 2..=REMEMBERED).contains(&kept), "{kept}");
    }
}
