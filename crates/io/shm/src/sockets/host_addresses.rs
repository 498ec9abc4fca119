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
pub(super) struct HostAddresses<'a>(pub(super) &'a [[AtomicU64; 2]; ADDRESSES_MAX]);

impl HostAddresses<'_> {
    /// Tells these and no others.
    pub(super) fn set(self, addresses: &[IpAddr]) {
        let told = addresses.iter().map(|address| words_of(*address));
        for (place, words) in self.0.iter().zip(told.chain(std::iter::repeat([0, 0]))) {
            for (place, word) in place.iter().zip(words) {
                place.store(word, Ordering::Relaxed);
            }
        }
    }

    /// Whether the host has that address.
    pub(super) fn contain(self, address: IpAddr) -> bool {
        let meant = words_of(address);
        let places =
            self.0.iter().map(|place| place.each_ref().map(|word| word.load(Ordering::Relaxed)));
        places.take_while(|words| *words != [0, 0]).any(|words| words == meant)
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
        let host = HostAddresses(&words);
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(!host.contain(address("::")), "no address is none of the host's");
        host.set(&[address("10.0.0.2"), address("fd00::2")]);
        assert!(host.contain(address("10.0.0.2")) && host.contain(address("::ffff:10.0.0.2")));
        assert!(host.contain(address("fd00::2")) && !host.contain(address("10.0.0.3")));
        host.set(&[address("10.0.0.3")]);
        assert!(host.contain(address("10.0.0.3")) && !host.contain(address("fd00::2")));
        let many: Vec<IpAddr> = (0..100).map(|last| IpAddr::from([10, 1, 0, last])).collect();
        host.set(&many);
        assert!(host.contain(many[63]) && !host.contain(many[64]));
    }
}
