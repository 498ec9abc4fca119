//! The addresses of the host, as the daemon tells its programs: what goes there does not leave the
//! host, and is for the kernel.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Addresses that are told, at most. A host that has more tells the first ones.
pub(super) const ADDRESSES_MAX: usize = 64;

/// Words of shared memory: the high and the low half of each address, those of IPv4 as
/// IPv4-mapped ones (RFC 4291 section 2.5.5.2). Zeros: none.
///
/// A reader may meet an address that is half written. It knows none of that name then, and that
/// costs a datagram which is sent in the very moment when the host gets an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostAddresses<'a> {
    pub(super) words: &'a [[AtomicU64; 2]; ADDRESSES_MAX],
    /// A bit for each that is of an interface which the daemon serves.
    pub(super) served: &'a AtomicU64,
    /// Counts on with each change of them; 0: none were told yet.
    pub(super) version: &'a AtomicU32,
}

impl HostAddresses<'_> {
    /// Tells these and no others.
    pub(super) fn set(self, addresses: &[IpAddr], served: &[IpAddr]) {
        let told = addresses.iter().take(ADDRESSES_MAX);
        let bits = told.zip(0..).filter(|(address, _)| served.contains(address));
        let bits = bits.fold(0, |bits, (_, at)| bits | 1_u64 << at);
        let told = addresses.iter().map(|address| words_of(*address));
        let told = told.chain(std::iter::repeat([0, 0])).take(ADDRESSES_MAX);
        let is_same = self.places().eq(told.clone()) && self.served.load(Ordering::Relaxed) == bits;
        if is_same && self.version.load(Ordering::Relaxed) != 0 {
            return;
        }
        // Before any of them changes, so that nobody takes the new ones for those of before.
        self.version.fetch_add(1, Ordering::Relaxed);
        // What is half told is served by nobody. Release: who sees it sees the version.
        self.served.fetch_and(bits, Ordering::Release);
        for (place, words) in self.words.iter().zip(told) {
            for (place, word) in place.iter().zip(words) {
                place.store(word, Ordering::Relaxed);
            }
        }
        self.served.store(bits, Ordering::Release);
    }

    /// Whether the host has that address.
    pub(super) fn contain(self, address: IpAddr) -> bool {
        self.place_of(address).is_some()
    }

    /// Whether that address is of an interface which the daemon serves.
    pub(super) fn serve(self, address: IpAddr) -> bool {
        let served = self.served.load(Ordering::Acquire);
        self.place_of(address).is_some_and(|at| served >> at & 1 != 0)
    }

    /// The same, and whether those that are told are still the ones of `version`.
    pub(super) fn serve_since(self, version: u32, address: IpAddr) -> bool {
        // The version last: it changes first.
        version != 0 && self.serve(address) && self.version.load(Ordering::Acquire) == version
    }

    fn place_of(self, address: IpAddr) -> Option<usize> {
        let meant = words_of(address);
        self.places().take_while(|words| *words != [0, 0]).position(|words| words == meant)
    }

    fn places(self) -> impl Iterator<Item = [u64; 2]> {
        let words = self.words.iter();
        words.map(|place| place.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }
}

fn words_of(address: IpAddr) -> [u64; 2] {
    let v6 = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let bits = v6.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn what_was_served_at_a_time_is_known_until_anything_changes() {
        let words = [const { [const { AtomicU64::new(0) }; 2] }; ADDRESSES_MAX];
        let (served, version) = (AtomicU64::new(0), AtomicU32::new(0));
        let host = HostAddresses { words: &words, served: &served, version: &version };
        let [one, other] = ["10.0.0.2", "10.0.0.3"].map(address);
        host.set(&[one, other], &[one]);
        let then = version.load(Ordering::Relaxed);
        assert!(host.serve_since(then, one) && !host.serve_since(then, other));
        assert!(!host.serve_since(0, one), "nobody says since when");
        host.set(&[one, other], &[one]);
        assert!(host.serve_since(then, one), "nothing has changed");
        host.set(&[one, other], &[one, other]);
        assert!(!host.serve_since(then, one) && !host.serve_since(then, other));
        assert!(host.serve_since(version.load(Ordering::Relaxed), other));
    }

    #[test]
    fn an_address_is_known_in_either_form_until_others_are_told() {
        let words = [const { [const { AtomicU64::new(0) }; 2] }; ADDRESSES_MAX];
        let served = AtomicU64::new(0);
        let version = AtomicU32::new(0);
        let host = HostAddresses { words: &words, served: &served, version: &version };
        assert!(!host.contain(address("::")), "no address is none of the host's");
        host.set(&[address("10.0.0.2"), address("fd00::2")], &[address("fd00::2")]);
        assert!(host.serve(address("fd00::2")) && !host.serve(address("10.0.0.2")));
        assert!(host.contain(address("10.0.0.2")) && host.contain(address("::ffff:10.0.0.2")));
        assert!(host.contain(address("fd00::2")) && !host.contain(address("10.0.0.3")));
        host.set(&[address("10.0.0.3")], &[]);
        assert!(!host.serve(address("10.0.0.3")) && !host.serve(address("fd00::2")));
        assert!(host.contain(address("10.0.0.3")) && !host.contain(address("fd00::2")));
        let many: Vec<IpAddr> = (0..100).map(|last| IpAddr::from([10, 1, 0, last])).collect();
        host.set(&many, &many[60..]);
        assert!(host.serve(many[63]) && !host.serve(many[59]) && !host.serve(many[64]));
        assert!(host.contain(many[63]) && !host.contain(many[64]));
    }
}
