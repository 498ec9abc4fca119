//! ICMP and ICMPv6 errors: which flow one is about, what it says, and what that means to a socket.
//!
//! An error quotes the start of a packet that we sent (RFC 792, RFC 4443), and anybody can write
//! one: what is read here is checked as far as it can be without knowing the flow. Who knows it
//! compares [`ErrorMessage::sequence`], or for UDP [`ErrorMessage::datagram_bytes`], with what is
//! on its way (RFC 5927 section 4).

use super::HEADER_BYTES;
use crate::bytes::{array, be16};
use crate::checksum::Sum;
use crate::{FlowKey, Protocol, ethernet, ipv4, ipv6, vlan};

/// An error about a TCP or UDP packet that the host which it came to has sent.
///
/// `14 <= l3_offset < l4_offset`, and both are within the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// The flow *as packets of the peer have it*: its source is whom the quoted packet went to. So
    /// it is hashed to the group that these are in.
    pub key: FlowKey,
    /// What it says.
    pub kind: ErrorKind,
    /// Number of the first byte of the quoted segment, or of its SYN; zero for UDP.
    pub sequence: u32,
    /// Bytes of the quoted datagram as its UDP header has them (RFC 768), that header included;
    /// zero for TCP.
    pub datagram_bytes: u16,
    /// The IP header of the message itself.
    pub l3_offset: u16,
    /// Its ICMP header.
    pub l4_offset: u16,
}

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The packet could not be delivered, for a reason which ICMP and ICMPv6 number differently.
    Unreachable {
        /// That number.
        code: u8,
    },
    /// It was longer than the next link takes (of ICMP: unreachable, code 4).
    TooBig {
        /// Bytes of the largest IP packet that link takes; zero from a router older than RFC 1191.
        mtu: u32,
    },
    /// It passed more routers than it might, or was not put together in time.
    TimeExceeded,
    /// Its headers were not understood.
    ParameterProblem,
}

impl ErrorMessage {
    /// Reads the error in `frame`. Nothing for what is none: other messages (source quench and
    /// redirect among them), wrong checksums, fragments, quotes of other protocols or without ports
    /// and sequence number, and quotes of a packet that whoever the message is for did not send.
    #[cold]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let link = ethernet::Header::parse(frame).ok()?;
        let network = vlan::skip_tags(frame, link.ether_type).ok()?;
        let packet = frame.get(usize::from(network.offset)..)?;
        // One to many must not be heeded (RFC 1122 section 3.2.2).
        if ethernet::is_group(link.destination) {
            return None;
        }
        match network.ether_type {
            ethernet::IPV4 => parse_ipv4(packet, network.offset),
            ethernet::IPV6 => parse_ipv6(packet, network.offset),
            _ => None,
        }
    }

    /// The number that Linux reports it to programs by (errno; RFC 1122 section 4.2.3.9 leaves the
    /// choice).
    ///
    /// A connection that is being opened ends with it. An established one goes on, and ends with
    /// the last one, in place of ETIMEDOUT, if the peer stays silent (SO_ERROR, IP_RECVERR apart).
    /// A UDP socket that is connected hears of those that [`Self::is_hard`] and of what was too
    /// big; another one of none.
    pub const fn errno(&self) -> i32 {
        match self.kind {
            ErrorKind::Unreachable { code } if self.key.is_ipv6() => match code {
                0 => errno::ENETUNREACH,
                1 | 5 | 6 => errno::EACCES,
                2 | 3 => errno::EHOSTUNREACH,
                4 => errno::ECONNREFUSED,
                _ => errno::EPROTO,
            },
            ErrorKind::Unreachable { code } => match code {
                0 | 6 | 9 | 11 => errno::ENETUNREACH,
                2 => errno::ENOPROTOOPT,
                3 => errno::ECONNREFUSED,
                5 => errno::EOPNOTSUPP,
                7 => errno::EHOSTDOWN,
                8 => errno::ENONET,
                _ => errno::EHOSTUNREACH,
            },
            ErrorKind::TooBig { .. } => errno::EMSGSIZE,
            ErrorKind::TimeExceeded => errno::EHOSTUNREACH,
            ErrorKind::ParameterProblem => errno::EPROTO,
        }
    }

    /// Whether it will not go away by itself, as Linux sees it; a soft one is often a route that is
    /// being changed (RFC 1122 section 4.2.3.9, RFC 5461).
    pub const fn is_hard(&self) -> bool {
        match self.kind {
            ErrorKind::Unreachable { code } if self.key.is_ipv6() => !matches!(code, 0 | 2 | 3),
            ErrorKind::Unreachable { code } => !matches!(code, 0 | 1 | 5 | 11 | 12),
            ErrorKind::ParameterProblem => true,
            ErrorKind::TooBig { .. } | ErrorKind::TimeExceeded => false,
        }
    }
}

/// Numbers of asm-generic/errno.h, which all architectures that we run on share.
mod errno {
    pub(super) const EACCES: i32 = 13;
    pub(super) const ENONET: i32 = 64;
    pub(super) const EPROTO: i32 = 71;
    pub(super) const EMSGSIZE: i32 = 90;
    pub(super) const ENOPROTOOPT: i32 = 92;
    pub(super) const EOPNOTSUPP: i32 = 95;
    pub(super) const ENETUNREACH: i32 = 101;
    pub(super) const ECONNREFUSED: i32 = 111;
    pub(super) const EHOSTDOWN: i32 = 112;
    pub(super) const EHOSTUNREACH: i32 = 113;
}

/// The last code of an unreachable message that RFC 1812 section 5.2.7.1 knows.
const IPV4_CODE_MAX: u8 = 15;
const IPV4_TOO_BIG: u8 = 4;

fn parse_ipv4(packet: &[u8], l3_offset: u16) -> Option<ErrorMessage> {
    let header = ipv4::Header::parse(packet).ok()?;
    if header.is_fragment || header.protocol != ipv4::ICMP || header.check_addresses().is_err() {
        return None;
    }
    let (head, message) = packet
        .get(..usize::from(header.total_bytes))?
        .split_at_checked(usize::from(header.header_bytes))?;
    let (&[kind, code, _, _, _, _, m0, m1], quote) = message.split_first_chunk::<8>()?;
    let kind = match (kind, code) {
        (3, IPV4_TOO_BIG) => ErrorKind::TooBig { mtu: u32::from(u16::from_be_bytes([m0, m1])) },
        (3, 0..=IPV4_CODE_MAX) => ErrorKind::Unreachable { code },
        (11, _) => ErrorKind::TimeExceeded,
        (12, _) => ErrorKind::ParameterProblem,
        _ => return None,
    };
    let quoted = quoted_ipv4(quote)?;
    let (sender, _) = quoted.flow.ipv4()?;
    let is_whole = |bytes| Sum::ZERO.bytes(bytes).fold() == 0xffff;
    if sender != header.destination || !is_whole(head) || !is_whole(message) {
        return None;
    }
    quoted.message(kind, l3_offset, l3_offset + header.header_bytes)
}

fn parse_ipv6(packet: &[u8], l3_offset: u16) -> Option<ErrorMessage> {
    let header = ipv6::Header::parse(packet).ok()?;
    let payload = packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes())?;
    let transport = ipv6::walk(payload, header.next_header).ok()?;
    if transport.protocol != ipv6::ICMPV6 || header.check_addresses().is_err() {
        return None;
    }
    let message = payload.get(usize::from(transport.extension_bytes)..)?;
    let (&[kind, code, _, _, m0, m1, m2, m3], quote) = message.split_first_chunk::<8>()?;
    let kind = match kind {
        1 => ErrorKind::Unreachable { code },
        2 => ErrorKind::TooBig { mtu: u32::from_be_bytes([m0, m1, m2, m3]) },
        3 => ErrorKind::TimeExceeded,
        4 => ErrorKind::ParameterProblem,
        _ => return None,
    };
    let quoted = quoted_ipv6(quote)?;
    let (sender, _) = quoted.flow.ipv6()?;
    let length = u16::try_from(message.len()).ok()?;
    let sum = Sum::ZERO
        .pseudo_ipv6(header.source, header.destination, ipv6::ICMPV6, length)
        .bytes(message);
    if sender != header.destination || sum.fold() != 0xffff {
        return None;
    }
    let l4_offset = l3_offset + ipv6::HEADER_BYTES + transport.extension_bytes;
    quoted.message(kind, l3_offset, l4_offset)
}

/// What an error quotes.
struct Quoted {
    /// As the quoted packet has it: we are the source.
    flow: FlowKey,
    sequence: u32,
    datagram_bytes: u16,
}

impl Quoted {
    fn message(self, kind: ErrorKind, l3_offset: u16, l4_offset: u16) -> Option<ErrorMessage> {
        let Self { flow, sequence, datagram_bytes } = self;
        let key = flow.reversed();
        Some(ErrorMessage { key, kind, sequence, datagram_bytes, l3_offset, l4_offset })
    }
}

/// `quote` is an IPv4 packet of which perhaps only eight bytes of payload are left (RFC 792), so
/// its lengths cannot be checked against it.
fn quoted_ipv4(quote: &[u8]) -> Option<Quoted> {
    let fixed = quote.first_chunk::<20>()?;
    let header_bytes = usize::from(fixed[0] & 0x0f) * 4;
    let fragment_offset = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff;
    if fixed[0] >> 4 != 4 || header_bytes < 20 || fragment_offset != 0 {
        return None;
    }
    let protocol = Protocol::from_number(fixed[9])?;
    let (source, destination) = (array(quote, 12)?, array(quote, 16)?);
    if !ipv4::is_host(destination) {
        return None;
    }
    let (ports, sequence, datagram_bytes) = transport(protocol, quote, header_bytes)?;
    let flow = FlowKey::from_ipv4(protocol, source, destination, ports);
    Some(Quoted { flow, sequence, datagram_bytes })
}

fn quoted_ipv6(quote: &[u8]) -> Option<Quoted> {
    let (fixed, payload) = quote.split_first_chunk::<40>()?;
    let header = ipv6::Header::from_fixed(fixed).ok()?;
    let behind = ipv6::walk(payload, header.next_header).ok()?;
    let protocol = Protocol::from_number(behind.protocol)?;
    if !ipv6::is_host(header.destination) {
        return None;
    }
    let at = usize::from(behind.extension_bytes);
    let (ports, sequence, datagram_bytes) = transport(protocol, payload, at)?;
    let flow = FlowKey::from_ipv6(protocol, header.source, header.destination, ports);
    Some(Quoted { flow, sequence, datagram_bytes })
}

/// Ports, sequence number and UDP's length of the eight bytes at `at`.
fn transport(protocol: Protocol, packet: &[u8], at: usize) -> Option<((u16, u16), u32, u16)> {
    let head: [u8; HEADER_BYTES as usize] = array(packet, at)?;
    let (sequence, datagram_bytes) = match protocol {
        Protocol::Tcp => (u32::from_be_bytes([head[4], head[5], head[6], head[7]]), 0),
        Protocol::Udp => (0, be16(&head, 4)?),
    };
    Some(((be16(&head, 0)?, be16(&head, 2)?), sequence, datagram_bytes))
}

#[cfg(test)]
mod tests;
