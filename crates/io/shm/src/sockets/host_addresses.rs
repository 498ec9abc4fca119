//! The addresses of the host, as the daemon tells its programs: what goes there does not leave the
//! host, and is for the kernel.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

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
}

impl HostAddresses<'_> {
    /// Tells these and no others.
    pub(super) fn set(self, addresses: &[IpAddr], served: &[IpAddr]) {
        let told = addresses.iter().take(ADDRESSES_MAX);
        let bits = told.zip(0..).filter(|(address, _)| served.contains(address));
        let bits = bits.fold(0, |bits, (_, at)| bits | 1_u64 << at);
        // What is half told is served by nobody.
        self.served.fetch_and(bits, Ordering::Relaxed);
        let told = addresses.iter().map(|address| words_of(*address));
        for (place, words) in self.words.iter().zip(told.chain(std::iter::repeat([0, 0]))) {
            for (place, word) in place.iter().zip(words) {
                place.store(word, Ordering::Relaxed);
            }
        }
        self.served.store(bits, Ordering::Relaxed);
    }

    /// Whether the host has that address.
    pub(super) fn contain(self, address: IpAddr) -> bool {
        self.place_of(address).is_some()
    }

    /// Whether that address is of an interface which the daemon serves.
    pub(super) fn serve(self, address: IpAddr) -> bool {
        let served = self.served.load(Ordering::Relaxed);
        self.place_of(address).is_some_and(|at| served >> at & 1 != 0)
    }

    fn place_of(self, address: IpAddr) -> Option<usize> {
        let meant = words_of(address);
        let places = self
            .words
            .iter()
            .map(|place| place.each_ref().map(|word| word.load(Ordering::Relaxed)));
        places.take_while(|words| *words != [0, 0]).position(|words| words == meant)
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

    #[test]
    fn an_address_is_known_in_either_form_until_others_are_told() {
        let words = [const { [const { AtomicU64::new(0) }; 2] }; ADDRESSES_MAX];
        let served = AtomicU64::new(0);
        let host = HostAddresses { words: &words, served: &served };
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
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
