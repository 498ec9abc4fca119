//! A prefix: the addresses that begin with the same bits.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and how many of its bits count; the others are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// All IPv4 addresses.
    pub const ALL_IPV4: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), bits: 0 };
    /// All IPv6 addresses.
    pub const ALL_IPV6: Self = Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), bits: 0 };

    /// The addresses whose first `bits` bits are those of `address`.
    ///
    /// # Errors
    /// The address has fewer bits, or is not zero behind them.
    pub fn new(address: IpAddr, bits: u8) -> Result<Self, PrefixError> {
        let max = width(address);
        if bits > max {
            return Err(PrefixError::TooLong { bits, max });
        }
        let prefix = Self::of(address, bits);
        if prefix.address != address {
            return Err(PrefixError::HostBits(prefix));
        }
        Ok(prefix)
    }

    /// The prefix of `bits` bits (at most as many as there are) that `address` is in.
    pub const fn of(address: IpAddr, bits: u8) -> Self {
        let bits = if bits > width(address) { width(address) } else { bits };
        let address = match address {
            IpAddr::V4(four) => IpAddr::V4(Ipv4Addr::from_bits(four.to_bits() & mask4(bits))),
            IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & mask6(bits))),
        };
        Self { address, bits }
    }

    /// Its first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits count.
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether `address` is one of its addresses.
    #[inline]
    pub const fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                (one.to_bits() ^ other.to_bits()) & mask4(self.bits) == 0
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => {
                (one.to_bits() ^ other.to_bits()) & mask6(self.bits) == 0
            }
            _ => false,
        }
    }
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Ones for the bits of an IPv4 address that count.
#[inline]
pub(crate) const fn mask4(bits: u8) -> u32 {
    match u32::MAX.checked_shl(32 - bits as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

/// Ones for the bits of an IPv6 address that count.
#[inline]
pub(crate) const fn mask6(bits: u8) -> u128 {
    match u128::MAX.checked_shl(128 - bits as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// `10.0.0.0/8`, `2001:db8::/32`; an address alone is the prefix of that one address.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixError::NotAPrefix)?;
        match bits {
            // `parse` would take a sign.
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Self::new(address, bits.parse().map_err(|_| PrefixError::NotAPrefix)?)
            }
            Some(_) => Err(PrefixError::NotAPrefix),
            None => Ok(Self::of(address, u8::MAX)),
        }
    }
}

/// Why something is no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// It is not written as one.
    NotAPrefix,
    /// The address has fewer bits.
    TooLong {
        /// What was asked for.
        bits: u8,
        /// The most that is possible.
        max: u8,
    },
    /// Bits behind the prefix are set; this one was probably meant.
    HostBits(Prefix),
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAPrefix => f.write_str(
                "not a prefix: write an address and its bits, such as 10.0.0.0/8 or 2001:db8::/32",
            ),
            Self::TooLong { bits, max } => {
                write!(f, "/{bits} is too long: such an address has {max} bits")
            }
            Self::HostBits(meant) => {
                write!(f, "bits behind the prefix are set: {meant} is probably meant")
            }
        }
    }
}

impl std::error::Error for PrefixError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_as_they_are_written() {
        for text in
            ["0.0.0.0/0", "10.0.0.0/8", "10.1.2.3/32", "::/0", "2001:db8::/32", "fd00::1/128"]
        {
            assert_eq!(text.parse::<Prefix>().map(|prefix| prefix.to_string()), Ok(text.into()));
        }
        assert_eq!("10.1.2.3".parse(), Prefix::new([10, 1, 2, 3].into(), 32));
    }

    #[test]
    fn what_is_no_prefix_is_refused_and_says_what_was_meant() {
        for text in
            ["", "/8", "10.0.0/8", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/256", "a/8", "::/-1"]
        {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError::NotAPrefix), "{text}");
        }
        assert_eq!("1.2.3.0/33".parse::<Prefix>(), Err(PrefixError::TooLong { bits: 33, max: 32 }));
        let error = "10.1.2.3/8".parse::<Prefix>().expect_err("host bits");
        assert_eq!(
            error.to_string(),
            "bits behind the prefix are set: 10.0.0.0/8 is probably meant"
        );
    }

    #[test]
    fn a_prefix_contains_the_addresses_that_begin_as_it_does() {
        let prefix: Prefix = "10.1.128.0/17".parse().expect("a prefix");
        assert!(prefix.contains([10, 1, 128, 0].into()) && prefix.contains([10, 1, 255, 9].into()));
        assert!(!prefix.contains([10, 1, 127, 255].into()));
        assert!(!prefix.contains("::ffff:10.1.128.0".parse().expect("an address")));
        assert!(Prefix::ALL_IPV6.contains("ffff::".parse().expect("an address")));
        assert!(Prefix::ALL_IPV4.contains([255; 4].into()));
    }
}
