//! Which packets a rule is about.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::Prefix;
use crate::headers::{Headers, has_ports};
use crate::prefix::mask6;

/// Ports from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Every port.
    const ALL: Self = Self { first: 0, last: u16::MAX };

    /// From `first` to `last`; nothing when these are the wrong way round.
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first <= last { Some(Self { first, last }) } else { None }
    }

    /// The first one.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The last one.
    pub const fn last(self) -> u16 {
        self.last
    }

    #[inline]
    const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl FromStr for PortRange {
    type Err = SelectorError;

    /// `80` or `8000-8080`.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().map_err(|_| SelectorError::Ports),
            false => Err(SelectorError::Ports),
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Self::new(number(first)?, number(last)?).ok_or(SelectorError::Ports)
    }
}

/// What a packet must be. Nothing said: any packet, even one that is not IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Where it comes from.
    pub source: Option<Prefix>,
    /// Where it goes to.
    pub destination: Option<Prefix>,
    /// The number of its protocol.
    pub protocol: Option<u8>,
    /// From which port. Only packets with ports have one: later fragments do not.
    pub source_ports: Option<PortRange>,
    /// To which port.
    pub destination_ports: Option<PortRange>,
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl fmt::Display for Selector {
    /// `protocol 6 from 10.0.0.0/8 to any port 22`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(protocol) = self.protocol {
            write!(f, "protocol {protocol} ")?;
        }
        let ends = [
            ("from", self.source, self.source_ports),
            (" to", self.destination, self.destination_ports),
        ];
        for (word, prefix, ports) in ends {
            match prefix {
                Some(prefix) => write!(f, "{word} {prefix}")?,
                None => write!(f, "{word} any")?,
            }
            if let Some(ports) = ports {
                write!(f, " port {ports}")?;
            }
        }
        Ok(())
    }
}

/// A [`Selector`] as packets are held against it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    source: (u128, u128),
    destination: (u128, u128),
    /// Which IP version; `None`: both.
    is_ipv6: Option<bool>,
    protocol: Option<u8>,
    /// `None`: it does not matter whether there are any.
    ports: Option<(PortRange, PortRange)>,
    is_any: bool,
}

impl Selector {
    /// Makes it ready for packets.
    ///
    /// # Errors
    /// No packet can be like that.
    pub(crate) fn compile(&self) -> Result<Compiled, SelectorError> {
        let Self { source, destination, protocol, source_ports, destination_ports } = *self;
        let version = |prefix: Prefix| prefix.address().is_ipv6();
        if let (Some(source), Some(destination)) = (source, destination)
            && version(source) != version(destination)
        {
            return Err(SelectorError::Versions);
        }
        let wants_ports = source_ports.is_some() || destination_ports.is_some();
        if let Some(protocol) = protocol
            && wants_ports
            && !has_ports(protocol)
        {
            return Err(SelectorError::NoPorts(protocol));
        }
        let ports = wants_ports.then_some((
            source_ports.unwrap_or(PortRange::ALL),
            destination_ports.unwrap_or(PortRange::ALL),
        ));
        Ok(Compiled {
            source: masked(source),
            destination: masked(destination),
            is_ipv6: source.or(destination).map(version),
            protocol,
            ports,
            is_any: *self == Self::default(),
        })
    }
}

impl Compiled {
    /// Whether a packet that could not be read is meant too.
    pub(crate) const fn is_any(&self) -> bool {
        self.is_any
    }

    /// Whether the packet is meant.
    #[inline]
    pub(crate) fn matches(&self, packet: &Key) -> bool {
        let (source, source_mask) = self.source;
        let (destination, destination_mask) = self.destination;
        (packet.source ^ source) & source_mask == 0
            && (packet.destination ^ destination) & destination_mask == 0
            && self.is_ipv6.is_none_or(|is_ipv6| is_ipv6 == packet.is_ipv6)
            && self.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && match (self.ports, packet.ports) {
                (None, _) => true,
                (Some((from, to)), Some((source, destination))) => {
                    from.contains(source) && to.contains(destination)
                }
                (Some(_), None) => false,
            }
    }
}

/// [`Headers`] with the addresses as numbers, IPv4 ones mapped into IPv6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) source: u128,
    destination: u128,
    pub(crate) is_ipv6: bool,
    protocol: u8,
    ports: Option<(u16, u16)>,
}

impl From<&Headers> for Key {
    #[inline]
    fn from(headers: &Headers) -> Self {
        let Headers { source, destination, protocol, ports } = *headers;
        Self {
            source: number(source),
            destination: number(destination),
            is_ipv6: source.is_ipv6(),
            protocol,
            ports,
        }
    }
}

#[inline]
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => four.to_ipv6_mapped().to_bits(),
        IpAddr::V6(six) => six.to_bits(),
    }
}

/// The address and the mask of a prefix, IPv4 mapped into IPv6.
fn masked(prefix: Option<Prefix>) -> (u128, u128) {
    let Some(prefix) = prefix else { return (0, 0) };
    let bits = prefix.bits() + if prefix.address().is_ipv4() { 96 } else { 0 };
    (number(prefix.address()), mask6(bits))
}

/// Why no packet can be as a selector wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// Source and destination are of different IP versions.
    Versions,
    /// That protocol has no ports.
    NoPorts(u8),
    /// Not a port or a range of ports.
    Ports,
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Versions => f.write_str(
                "source and destination are of different IP versions, and no packet is of both",
            ),
            Self::NoPorts(protocol) => write!(
                f,
                "protocol {protocol} has no ports: TCP (6), UDP (17), DCCP (33), SCTP (132) and UDP-Lite (136) have"
            ),
            Self::Ports => f.write_str(
                "not a port or a range of ports: write 0 to 65535, such as 80 or 8000-8080",
            ),
        }
    }
}

impl std::error::Error for SelectorError {}

#[cfg(test)]
mod tests;
