//! Which addresses a tunnel is for: prefixes at this end and at the other.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// An address of either version, as a number; one of IPv4 lies where IPv6 has its mapped ones, which no
/// packet may carry.
pub(crate) type Address = u128;

const MAPPED: u128 = 0xffff << 32;

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

/// A network: an address and how many of its leading bits count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    network: Address,
    mask: u128,
}

impl Prefix {
    /// The network of `length` bits that `address` lies in; nothing when the address has not as many bits.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let (before, bits) = match address {
            IpAddr::V4(_) => (96, 32),
            IpAddr::V6(_) => (0, 128),
        };
        if length > bits {
            return None;
        }
        let mask = u128::MAX.checked_shl(128 - before - u32::from(length)).unwrap_or(0);
        Some(Self { network: of(address) & mask, mask })
    }

    /// Whether it is a network of IPv4.
    pub const fn is_ipv4(&self) -> bool {
        self.network >> 32 == MAPPED >> 32 && self.mask.leading_ones() >= 96
    }

    #[inline]
    pub(crate) const fn contains(&self, address: Address) -> bool {
        address & self.mask == self.network
    }
}

/// Text that names no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPrefix;

impl FromStr for Prefix {
    type Err = NotPrefix;

    /// As `10.1.0.0/16`; bits behind the length must be zero, for who wrote them meant something else.
    fn from_str(text: &str) -> Result<Self, NotPrefix> {
        let (address, length) = text.split_once('/').ok_or(NotPrefix)?;
        let address: IpAddr = address.parse().map_err(|_| NotPrefix)?;
        let prefix = Self::new(address, length.parse().map_err(|_| NotPrefix)?).ok_or(NotPrefix)?;
        if prefix.network != of(address) { Err(NotPrefix) } else { Ok(prefix) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.mask.leading_ones();
        let address = Ipv6Addr::from_bits(self.network);
        match address.to_ipv4_mapped() {
            Some(address) if self.is_ipv4() => {
                write!(f, "{}/{}", address, bits - 96)
            }
            _ => write!(f, "{address}/{bits}"),
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("this is a prefix")
    }

    fn contains(text: &str, address: &str) -> bool {
        prefix(text).contains(of(address.parse().expect("this is an address")))
    }

    #[test]
    fn network_contains_its_addresses_and_no_others() {
        assert!(contains("10.1.0.0/16", "10.1.255.255"));
        assert!(!contains("10.1.0.0/16", "10.2.0.0"));
        assert!(contains("10.1.2.3/32", "10.1.2.3"));
        assert!(!contains("10.1.2.3/32", "10.1.2.2"));
        assert!(contains("fd00::/8", "fdff::1"));
        assert!(!contains("fd00::/8", "fe80::1"));
    }

    #[test]
    fn everything_of_one_version_is_nothing_of_the_other() {
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("::/0", "2001:db8::1"));
        assert!(prefix("0.0.0.0/0").is_ipv4());
        assert!(!prefix("::/0").is_ipv4());
    }

    #[test]
    fn mapped_address_on_the_wire_is_no_address() {
        let mapped = Ipv4Addr::new(10, 1, 0, 1).to_ipv6_mapped().octets();
        assert_eq!(of_ipv6(mapped), None);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "10.1.0.0",
            "10.1.0.1/16",
            "10.1.0.0/33",
            "fd00::/129",
            "fd00::1/8",
            "x/8",
            "10.0.0.0/-1",
        ] {
            assert_eq!(text.parse::<Prefix>(), Err(NotPrefix), "{text}");
        }
        for text in ["10.1.0.0/16", "0.0.0.0/0", "::/0", "fd00::/8"] {
            assert_eq!(prefix(text).to_string(), text);
        }
    }
}
