//! Which address and port each flow comes from: addresses first, then the next port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Ports that flows come from start here, above those of services and where 55,000 follow.
pub const FIRST_PORT: u16 = 10_000;

/// Addresses of one prefix, as `10.0.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    first: IpAddr,
    hosts: u32,
    bits: u8,
}

impl Prefix {
    /// The single address.
    pub fn host(address: IpAddr) -> Self {
        Self { first: address, hosts: 1, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Addresses of hosts in it; more than `u32::MAX` count as that.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// The `number`-th of them.
    #[inline]
    pub fn nth(&self, number: u32) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(number)).into(),
            IpAddr::V6(first) => {
                Ipv6Addr::from(u128::from(first).wrapping_add(u128::from(number))).into()
            }
        }
    }

    /// Which of them `address` is.
    #[inline]
    pub fn position(&self, address: IpAddr) -> Option<u32> {
        let number = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                u32::from(address).checked_sub(u32::from(first))?
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                u32::try_from(u128::from(address).checked_sub(u128::from(first))?).ok()?
            }
            _ => return None,
        };
        (number < self.hosts).then_some(number)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no prefix: write it like 10.78.0.0/16");
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        match address {
            IpAddr::V4(v4) if bits <= 32 => {
                let size = 1_u64 << (32 - bits);
                let network = u32::from(v4) & !((size - 1) as u32);
                // All zeros and all ones are no hosts, except where there is nothing between
                // (RFC 3021).
                let (first, hosts) =
                    if bits >= 31 { (network, size) } else { (network + 1, size - 2) };
                let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
                Ok(Self { first: Ipv4Addr::from(first).into(), hosts, bits })
            }
            IpAddr::V6(v6) if bits <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                let network = u128::from(v6) & mask;
                // The first is the routers' anycast address (RFC 4291 section 2.6.1).
                let (first, hosts) =
                    if bits >= 127 { (network, !mask + 1) } else { (network + 1, !mask) };
                let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
                Ok(Self { first: Ipv6Addr::from(first).into(), hosts, bits })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.hosts > 1 {
            write!(f, "+{} (/{})", self.hosts - 1, self.bits)?;
        }
        Ok(())
    }
}

/// How flows are spread over addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Addresses in use.
    pub addresses: u32,
    /// Ports in use with each.
    pub ports: u32,
}

impl Spread {
    /// `flows` over at most `hosts` addresses and as few ports as that takes.
    pub fn new(flows: u32, hosts: u32) -> Self {
        let addresses = hosts.clamp(1, flows.max(1));
        Self { addresses, ports: flows.div_ceil(addresses) }
    }

    /// Number of the address and of the port of a flow.
    #[inline]
    pub fn of_flow(&self, flow: u32) -> (u32, u32) {
        (flow % self.addresses, flow / self.addresses)
    }

    /// The flow of an address and a port, by number.
    #[inline]
    pub fn flow(&self, address: u32, port: u32) -> u32 {
        port * self.addresses + address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_prefix_leave_out_what_is_no_host() {
        for (text, first, hosts) in [
            ("10.0.0.0/8", "10.0.0.1", 16_777_214),
            ("10.0.3.9/24", "10.0.3.1", 254),
            ("10.0.0.4/31", "10.0.0.4", 2),
            ("10.0.0.4/32", "10.0.0.4", 1),
            ("fd00::/64", "fd00::1", u32::MAX),
            ("fd00::7/128", "fd00::7", 1),
            ("0.0.0.0/0", "0.0.0.1", u32::MAX - 1),
        ] {
            let prefix: Prefix = text.parse().expect(text);
            assert_eq!((prefix.nth(0).to_string().as_str(), prefix.hosts()), (first, hosts));
            let last = prefix.nth(hosts - 1);
            assert_eq!(prefix.position(last), Some(hosts - 1), "{text}");
            assert_eq!(prefix.position(prefix.nth(hosts)), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_prefix_is_refused_by_a_sentence_that_shows_one() {
        for text in ["", "10.0.0.1", "10.0.0.0/33", "fd00::/129", "10.0/8", "x/8", "10.0.0.0/-1"] {
            let sentence = text.parse::<Prefix>().expect_err(text);
            assert!(sentence.contains("like 10.78.0.0/16"), "{sentence}");
        }
    }

    #[test]
    fn flows_and_their_address_and_port_are_one_to_one() {
        for (flows, hosts) in [(1, 1), (1000, 1), (1000, 7), (1000, 65_534), (700_000, 254)] {
            let spread = Spread::new(flows, hosts);
            for flow in 0..flows {
                let (address, port) = spread.of_flow(flow);
                assert!(address < spread.addresses && port < spread.ports);
                assert_eq!(spread.flow(address, port), flow);
            }
        }
    }
}
