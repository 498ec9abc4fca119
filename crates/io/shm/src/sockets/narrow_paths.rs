//! Paths that take shorter packets than the interface that they begin at, as routers have said
//! (RFC 1191, RFC 8201): the daemon writes them, and programs leave what is longer to the kernel,
//! which has heard the same and cuts or refuses it as the socket's options say.
//!
//! They are hints. One that is lost or another's costs a packet, or its way by the kernel.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Paths that are known at once, at most: a new one takes the place of an older one.
pub(super) const PATHS_MAX: usize = 64;

/// What is learned holds so long: `net.ipv4.route.mtu_expires` and its brother of IPv6.
const HOLDS_FOR_SECONDS: u64 = 600;

/// Seconds of one unit in which ends are told, so that they fit into a word.
const UNIT_SECONDS: u64 = 8;

/// Words of shared memory: in each a mark of the address (32 bits), when it is forgotten (16, in
/// units of time) and the bytes of the longest packet (16). Zero: none.
#[derive(Clone, Copy, Debug)]
pub(super) struct NarrowPaths<'a>(pub(super) &'a [AtomicU64; PATHS_MAX]);

impl NarrowPaths<'_> {
    /// Packets to `remote` have at most `mtu` bytes from now on.
    pub(super) fn learn(self, remote: IpAddr, mtu: u16, now_seconds: u64) {
        let (at, mark) = place_of(remote);
        let until = ((now_seconds + HOLDS_FOR_SECONDS) / UNIT_SECONDS) as u16;
        let word = u64::from(mark) << 32 | u64::from(until) << 16 | u64::from(mtu);
        self.0[at].store(word, Ordering::Relaxed);
    }

    /// Bytes of the longest packet to `remote`, if a router has said so lately; the time is asked
    /// for only then.
    pub(super) fn mtu(self, remote: IpAddr, now_seconds: impl FnOnce() -> u64) -> Option<u16> {
        let (at, mark) = place_of(remote);
        let word = self.0[at].load(Ordering::Relaxed);
        let (until, mtu) = ((word >> 16) as u16, word as u16);
        if (word >> 32) as u32 != mark || mtu == 0 {
            return None;
        }
        let left = until.wrapping_sub((now_seconds() / UNIT_SECONDS) as u16);
        (u64::from(left) <= HOLDS_FOR_SECONDS / UNIT_SECONDS).then_some(mtu)
    }
}

/// The place of an address, and a mark that few others have. Whoever finds one with the same only
/// has a path of the same application's be taken for narrow.
fn place_of(address: IpAddr) -> (usize, u32) {
    let v6 = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let bits = v6.to_bits();
    // Odd numbers spread every bit over the high half (Knuth, section 6.4).
    let mixed = ((bits >> 64) as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
        .wrapping_add(bits as u64)
        .wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mark = (mixed >> 32) as u32;
    (mark as usize % PATHS_MAX, mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_narrow_path_is_known_in_either_form_for_ten_minutes() {
        let words = [const { AtomicU64::new(0) }; PATHS_MAX];
        let paths = NarrowPaths(&words);
        let [narrow, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        assert_eq!(paths.mtu(narrow, || 5), None);
        // Long after the start, when the units have come round.
        let now = (1 << 19) + 1000;
        paths.learn(narrow, 1280, now);
        assert_eq!(paths.mtu(narrow, || now), Some(1280));
        assert_eq!(paths.mtu(address("::ffff:192.0.2.1"), || now + 599), Some(1280));
        assert_eq!(paths.mtu(narrow, || now + 600 + UNIT_SECONDS), None);
        assert_eq!(paths.mtu(other, || panic!("nobody asks for the time")), None);
        paths.learn(narrow, 600, now + 9);
        assert_eq!(paths.mtu(narrow, || now + 9), Some(600), "what is newer holds");
    }

    #[test]
    fn addresses_that_follow_on_each_other_have_places_of_their_own() {
        let words = [const { AtomicU64::new(0) }; PATHS_MAX];
        let paths = NarrowPaths(&words);
        let all: Vec<IpAddr> = (0..32).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        all.iter().for_each(|remote| paths.learn(*remote, 1400, 7));
        let kept = all.iter().filter(|remote| paths.mtu(**remote, || 7).is_some()).count();
        assert!(kept >= 20, "{kept} of 32 in {PATHS_MAX} places");
        assert_eq!(paths.mtu(address("::"), || 7), None);
    }
}
