//! A network as people write it: an address and how many of its leading bits count.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network, `10.0.0.0/8` or `fd00::/8`; bits behind the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// A text that names no network; what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixError(String);

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PrefixError {}

impl Prefix {
    /// The network of `address`; bits behind the prefix are cleared. `None`: more bits than an
    /// address has.
    pub fn of(address: IpAddr, bits: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(v4) if bits <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4((v4.to_bits() & mask).into())
            }
            IpAddr::V6(v6) if bits <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6((v6.to_bits() & mask).into())
            }
            _ => return None,
        };
        Some(Self { address, bits })
    }

    /// Its first address.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many leading bits count.
    pub const fn bits(self) -> u8 {
        self.bits
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Reads `ADDRESS/BITS`; an address alone is a network of one.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let wrong = || {
            PrefixError(format!(
                "{:?} is no network: write ADDRESS/BITS, such as 10.0.0.0/8 or fd00::/8",
                crate::file::section::shorten(text)
            ))
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(digits(bits).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = bits.unwrap_or(if address.is_ipv4() { 32 } else { 128 });
        let prefix = Self::of(address, bits).ok_or_else(wrong)?;
        if prefix.address != address {
            return Err(PrefixError(format!(
                "{address}/{bits} has bits behind its prefix: write {prefix}, or another length"
            )));
        }
        Ok(prefix)
    }
}

/// Digits alone: `parse` would take a sign too.
fn digits(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_network_is_written_as_it_is_read(address: IpAddr, bits in 0..=128_u8) {
            let Some(prefix) = Prefix::of(address, bits) else {
                prop_assert!(address.is_ipv4() && bits > 32);
                return Ok(());
            };
            prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
            prop_assert_eq!(Prefix::of(prefix.address(), bits), Some(prefix));
        }
    }

    #[test]
    fn an_address_alone_is_a_network_of_one() {
        for (text, bits) in [("10.0.0.1", 32), ("fd00::1", 128)] {
            assert_eq!(text.parse::<Prefix>().map(Prefix::bits), Ok(bits));
        }
    }

    #[test]
    fn what_is_no_network_is_refused_with_an_example() {
        for text in ["", "/", "10.0.0.0/33", "10.0.0.0/+8", "fd00::/129", "10.0.0/8", "host/8"] {
            let refused = text.parse::<Prefix>().expect_err(text).to_string();
            assert!(refused.contains("10.0.0.0/8"), "{refused}");
        }
        let refused = "10.0.0.1/8".parse::<Prefix>().expect_err("host bits").to_string();
        assert!(refused.contains("write 10.0.0.0/8"), "{refused}");
    }
}
