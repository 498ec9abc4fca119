//! The 5-tuple of a flow: compared, hashed, printed and read back.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::ipv4;

/// A transport protocol whose flows we carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// RFC 9293.
    Tcp = ipv4::TCP,
    /// RFC 768.
    Udp = ipv4::UDP,
}

impl Protocol {
    /// Its number in an IP header.
    #[inline]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The protocol of that number.
    #[inline]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            ipv4::TCP => Some(Self::Tcp),
            ipv4::UDP => Some(Self::Udp),
            _ => None,
        }
    }

    /// Its name, as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Protocol, source and destination of a flow, as the packet that was received has them.
///
/// Five words, so that comparing is five compares and hashing has no padding to skip. An IPv4
/// address is the number in the second word of its pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    source: [u64; 2],
    destination: [u64; 2],
    /// From the top: source port, destination port, zero, [`IS_IPV6`] or zero, protocol number.
    rest: u64,
}

const _: () =
    assert!(size_of::<FlowKey>() == 40, "a key and a word of its owner fit in a cache line");

const SOURCE_PORT_SHIFT: u32 = 48;
const DESTINATION_PORT_SHIFT: u32 = 32;
const IS_IPV6: u64 = 1 << 8;

impl FlowKey {
    /// The flow of packets from `source` to `destination`; nothing when one of them is IPv4 and
    /// the other IPv6. Flow label and scope of an IPv6 address are not part of it.
    pub fn new(protocol: Protocol, source: SocketAddr, destination: SocketAddr) -> Option<Self> {
        let ports = (source.port(), destination.port());
        match (source.ip(), destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Some(Self::from_ipv4(protocol, from.octets(), to.octets(), ports))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                Some(Self::from_ipv6(protocol, from.octets(), to.octets(), ports))
            }
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn from_ipv4(
        protocol: Protocol,
        source: [u8; 4],
        destination: [u8; 4],
        ports: (u16, u16),
    ) -> Self {
        Self {
            source: [0, u64::from(u32::from_be_bytes(source))],
            destination: [0, u64::from(u32::from_be_bytes(destination))],
            rest: rest(protocol, ports),
        }
    }

    #[inline]
    pub(crate) fn from_ipv6(
        protocol: Protocol,
        source: [u8; 16],
        destination: [u8; 16],
        ports: (u16, u16),
    ) -> Self {
        Self {
            source: words(source),
            destination: words(destination),
            rest: rest(protocol, ports) | IS_IPV6,
        }
    }

    /// Its protocol.
    #[inline]
    pub const fn protocol(&self) -> Protocol {
        if self.rest & 0xff == ipv4::TCP as u64 { Protocol::Tcp } else { Protocol::Udp }
    }

    /// Whether its addresses are IPv6.
    #[inline]
    pub const fn is_ipv6(&self) -> bool {
        self.rest & IS_IPV6 != 0
    }

    /// The source address and port.
    #[inline]
    pub fn source(&self) -> SocketAddr {
        let [high, port, ..] = self.rest_bytes();
        SocketAddr::new(self.address(self.source), u16::from_be_bytes([high, port]))
    }

    /// The destination address and port.
    #[inline]
    pub fn destination(&self) -> SocketAddr {
        let [_, _, high, low, ..] = self.rest_bytes();
        SocketAddr::new(self.address(self.destination), u16::from_be_bytes([high, low]))
    }

    /// Source and destination address, if they are IPv4.
    #[inline]
    pub fn ipv4(&self) -> Option<([u8; 4], [u8; 4])> {
        let address = |[_, low]: [u64; 2]| {
            let [.., a, b, c, d] = low.to_be_bytes();
            [a, b, c, d]
        };
        (!self.is_ipv6()).then(|| (address(self.source), address(self.destination)))
    }

    /// Source and destination address, if they are IPv6.
    #[inline]
    pub fn ipv6(&self) -> Option<([u8; 16], [u8; 16])> {
        let address =
            |[high, low]: [u64; 2]| ((u128::from(high) << 64) | u128::from(low)).to_be_bytes();
        self.is_ipv6().then(|| (address(self.source), address(self.destination)))
    }

    /// Both ports: the source's, the destination's.
    #[inline]
    pub const fn ports(&self) -> (u16, u16) {
        let [s0, s1, d0, d1, ..] = self.rest_bytes();
        (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]))
    }

    /// Both addresses as words whose sum is that of their bytes.
    #[inline]
    pub(crate) const fn addresses(&self) -> [u64; 4] {
        [self.source[0], self.source[1], self.destination[0], self.destination[1]]
    }

    /// [`Self::protocol`] as a word.
    #[inline]
    pub(crate) const fn protocol_number(&self) -> u64 {
        self.rest & 0xff
    }

    /// The flow of the answers.
    #[inline]
    #[must_use]
    pub const fn reversed(&self) -> Self {
        const PORTS: u64 = 0xffff_ffff << DESTINATION_PORT_SHIFT;
        // The two ports are the upper half: rotating that half by 16 exchanges them.
        let upper = (self.rest & PORTS) >> DESTINATION_PORT_SHIFT;
        let ports = ((upper << 16) | (upper >> 16)) & 0xffff_ffff;
        Self {
            source: self.destination,
            destination: self.source,
            rest: (self.rest & !PORTS) | (ports << DESTINATION_PORT_SHIFT),
        }
    }

    /// 64 well mixed bits of the whole tuple, the same in every process and on every machine.
    ///
    /// Not keyed: whoever chooses addresses can choose collisions. Where that matters the keyed
    /// [`crate::Toeplitz`] decides.
    #[inline]
    pub const fn id(&self) -> u64 {
        // Each round is a bijection of the state, so that two keys that differ in one word never
        // collide; the finish is that of MurmurHash3, which spreads every bit over all others.
        let mut state = round(0, self.rest);
        if self.is_ipv6() {
            state = round(state, self.source[0]);
            state = round(state, self.source[1]);
            state = round(state, self.destination[0]);
            state = round(state, self.destination[1]);
        } else {
            state = round(state, (self.source[1] << 32) | self.destination[1]);
        }
        state ^= state >> 33;
        state = state.wrapping_mul(0xff51_afd7_ed55_8ccd);
        state ^= state >> 33;
        state = state.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        state ^ (state >> 33)
    }

    /// Addresses and ports in the order that receive-side scaling hashes them; the first twelve
    /// bytes count for IPv4, all for IPv6.
    #[inline]
    pub(crate) fn rss_input(&self) -> RssInput {
        let ports = self.rest >> DESTINATION_PORT_SHIFT;
        if self.is_ipv6() {
            let [s0, s1] = self.source;
            let [d0, d1] = self.destination;
            RssInput::Ipv6([s0, s1, d0, d1], ports)
        } else {
            RssInput::Ipv4((self.source[1] << 32) | self.destination[1], ports)
        }
    }

    #[inline]
    fn address(&self, [high, low]: [u64; 2]) -> IpAddr {
        let number = (u128::from(high) << 64) | u128::from(low);
        if self.is_ipv6() {
            return IpAddr::V6(Ipv6Addr::from_bits(number));
        }
        let [.., a, b, c, d] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    }

    #[inline]
    const fn rest_bytes(&self) -> [u8; 8] {
        self.rest.to_be_bytes()
    }
}

/// See [`FlowKey::rss_input`]: addresses as big-endian numbers, both ports in the low half of the
/// last word.
pub(crate) enum RssInput {
    Ipv4(u64, u64),
    Ipv6([u64; 4], u64),
}

#[inline]
const fn rest(protocol: Protocol, (source_port, destination_port): (u16, u16)) -> u64 {
    ((source_port as u64) << SOURCE_PORT_SHIFT)
        | ((destination_port as u64) << DESTINATION_PORT_SHIFT)
        | protocol.number() as u64
}

#[inline]
fn words(address: [u8; 16]) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = address;
    [u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes([i, j, k, l, m, n, o, p])]
}

#[inline]
const fn round(state: u64, word: u64) -> u64 {
    let mixed = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = ParseFlowError;

    fn from_str(text: &str) -> Result<Self, ParseFlowError> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            _ => Err(ParseFlowError(format!("`{text}` is no protocol of flows: write tcp or udp"))),
        }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.protocol(), self.source(), self.destination())
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is wrong with the text of a flow, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseFlowError(String);

impl fmt::Display for ParseFlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseFlowError {}

impl FromStr for FlowKey {
    type Err = ParseFlowError;

    fn from_str(text: &str) -> Result<Self, ParseFlowError> {
        let mut words = text.split_whitespace();
        let (Some(protocol), Some(source), Some("->"), Some(destination), None) =
            (words.next(), words.next(), words.next(), words.next(), words.next())
        else {
            return Err(ParseFlowError(format!(
                "`{text}` is no flow: write it like `udp 10.0.0.1:5000 -> 10.0.0.2:7`"
            )));
        };
        let (source, destination) = (end(source)?, end(destination)?);
        Self::new(protocol.parse()?, source, destination).ok_or_else(|| {
            ParseFlowError(format!(
                "`{source}` and `{destination}` are of different IP versions: a flow has one"
            ))
        })
    }
}

fn end(text: &str) -> Result<SocketAddr, ParseFlowError> {
    text.parse().map_err(|_| {
        ParseFlowError(format!(
            "`{text}` is no address with a port: write it like 10.0.0.1:5000 or [fd00::1]:5000"
        ))
    })
}

#[cfg(test)]
mod tests;
