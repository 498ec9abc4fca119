//! Addresses and networks as tunnels compare them: numbers, of both IP versions alike.

use std::net::IpAddr;

use crate::Prefix;

/// An address of either version, as a number; one of IPv4 lies where IPv6 has its mapped ones,
/// which no packet may carry.
pub(crate) type Address = u128;

const MAPPED: u128 = 0xffff << 32;
/// Bits before those of an address of IPv4.
const MAPPED_BITS: u32 = 96;

pub(crate) const fn of_ipv4(address: [u8; 4]) -> Address {
    MAPPED | u32::from_be_bytes(address) as u128
}

/// Nothing for a mapped address of IPv4: on the wire it is somebody's trick.
pub(crate) const fn of_ipv6(address: [u8; 16]) -> Option<Address> {
    let address = u128::from_be_bytes(address);
    if address >> 32 == MAPPED >> 32 { None } else { Some(address) }
}

pub(crate) const fn of(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(address) => of_ipv4(address.octets()),
        IpAddr::V6(address) => u128::from_be_bytes(address.octets()),
    }
}

/// A prefix in the form that a packet's addresses are held against: one comparison, whatever the
/// version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    first: Address,
    mask: u128,
}

impl Network {
    pub(crate) fn of(prefix: &Prefix) -> Self {
        let before = if prefix.address().is_ipv4() { MAPPED_BITS } else { 0 };
        let behind = u128::BITS - before - u32::from(prefix.bits());
        Self { first: of(prefix.address()), mask: u128::MAX.checked_shl(behind).unwrap_or(0) }
    }

    #[inline]
    pub(crate) const fn contains(&self, address: Address) -> bool {
        address & self.mask == self.first
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn contains(prefix: &str, address: &str) -> bool {
        let prefix: Prefix = prefix.parse().expect("this is a prefix");
        Network::of(&prefix).contains(of(address.parse().expect("this is an address")))
    }

    #[test]
    fn everything_of_one_version_is_nothing_of_the_other() {
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("::/0", "2001:db8::1"));
    }

    #[test]
    fn mapped_address_on_the_wire_is_no_address() {
        let mapped = Ipv4Addr::new(10, 1, 0, 1).to_ipv6_mapped().octets();
        assert_eq!(of_ipv6(mapped), None);
    }

    proptest! {
        #[test]
        fn network_contains_what_its_prefix_contains(
            prefix in any::<IpAddr>(), bits in 0..=128u8, flip in 0..160u32, other in any::<IpAddr>(),
        ) {
            let prefix = Prefix::of(prefix, bits);
            let near = match prefix.address() {
                IpAddr::V4(four) => {
                    let bit = 1u32.checked_shl(flip).unwrap_or(0);
                    IpAddr::from(Ipv4Addr::from_bits(four.to_bits() ^ bit))
                }
                IpAddr::V6(six) => {
                    let bit = 1u128.checked_shl(flip).unwrap_or(0);
                    IpAddr::from(std::net::Ipv6Addr::from_bits(six.to_bits() ^ bit))
                }
            };
            let network = Network::of(&prefix);
            for address in [near, other] {
                // Of IPv6 the mapped ones never get here.
                let is_mapped = matches!(address, IpAddr::V6(six) if of_ipv6(six.octets()).is_none());
                if !is_mapped && prefix.address().is_ipv4() == address.is_ipv4() {
                    prop_assert_eq!(network.contains(of(address)), prefix.contains(address));
                }
            }
        }
    }
}
