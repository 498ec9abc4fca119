//! ICMP and ICMPv6: what a message is, and the flow that an error message quotes (RFC 792, 4443).

mod neighbour;

pub use neighbour::{Solicitation, answer_solicitation};

use crate::flow_key::{FlowKey, Protocol};
use crate::{Malformed, NotOurs, Reject, bytes, ethernet, ipv4, ipv6, vlan};

/// Bytes of type, code, checksum and the word that depends on the type.
pub const HEADER_BYTES: u16 = 8;
/// ICMPv6 type of a neighbour solicitation (RFC 4861 section 4.3).
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement (RFC 4861 section 4.4).
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// The start of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type; ICMP and ICMPv6 number them differently.
    pub kind: u8,
    /// What the type leaves open.
    pub code: u8,
}

impl Header {
    /// Reads the header at the start of `message`.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        match message.first_chunk::<8>() {
            Some(&[kind, code, ..]) => Ok(Self { kind, code }),
            None => Err(Malformed::IcmpTruncated),
        }
    }
}

/// Whether an ICMP message of this type reports an error and quotes its cause: unreachable, source
/// quench, redirect, time exceeded, parameter problem.
pub const fn is_error_ipv4(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

/// Whether an ICMPv6 message of this type reports an error (RFC 4443 section 2.1).
pub const fn is_error_ipv6(kind: u8) -> bool {
    kind < 128
}

/// The flow of the packet that the ICMP or ICMPv6 error message in `frame` quotes, as that packet
/// had it: its source is whoever gets the message.
///
/// Nothing for a message that is no error, quotes too little, or quotes another protocol or a
/// fragment without ports. A quote proves nothing: anybody can write one.
pub fn quoted_flow(frame: &[u8]) -> Option<FlowKey> {
    let network = vlan::network(frame)?;
    let packet = frame.get(usize::from(network.offset)..)?;
    match network.ether_type {
        ethernet::IPV4 => {
            let header = ipv4::Header::parse(packet).ok()?;
            let message =
                packet.get(usize::from(header.header_bytes)..usize::from(header.total_bytes))?;
            let is_error = header.protocol == ipv4::ICMP
                && !header.is_fragment
                && is_error_ipv4(Header::parse(message).ok()?.kind);
            if is_error { quoted_ipv4(message.get(8..)?) } else { None }
        }
        ethernet::IPV6 => {
            let header = ipv6::Header::parse(packet).ok()?;
            let payload = packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes())?;
            let transport = ipv6::walk(payload, header.next_header).ok()?;
            let message = payload.get(usize::from(transport.extension_bytes)..)?;
            let is_error = transport.protocol == ipv6::ICMPV6
                && is_error_ipv6(Header::parse(message).ok()?.kind);
            if is_error { quoted_ipv6(message.get(8..)?) } else { None }
        }
        _ => None,
    }
}

/// `quote` is an IPv4 packet of which perhaps only eight bytes of payload are left (RFC 792), so
/// its lengths cannot be checked against it.
fn quoted_ipv4(quote: &[u8]) -> Option<FlowKey> {
    let fixed = quote.first_chunk::<20>()?;
    let header_bytes = usize::from(fixed[0] & 0x0f) * 4;
    let fragment_offset = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff;
    if fixed[0] >> 4 != 4 || header_bytes < 20 || fragment_offset != 0 {
        return None;
    }
    let protocol = Protocol::from_number(fixed[9])?;
    let ports = ports(quote, header_bytes)?;
    Some(FlowKey::from_ipv4(protocol, bytes::array(quote, 12)?, bytes::array(quote, 16)?, ports))
}

fn quoted_ipv6(quote: &[u8]) -> Option<FlowKey> {
    let (fixed, payload) = quote.split_first_chunk::<40>()?;
    let header = ipv6::Header::from_fixed(fixed).ok()?;
    let transport = ipv6::walk(payload, header.next_header).ok()?;
    let protocol = Protocol::from_number(transport.protocol)?;
    let ports = ports(payload, usize::from(transport.extension_bytes))?;
    Some(FlowKey::from_ipv6(protocol, header.source, header.destination, ports))
}

fn ports(packet: &[u8], at: usize) -> Option<(u16, u16)> {
    Some((bytes::be16(packet, at)?, bytes::be16(packet, at + 2)?))
}

/// Why an IPv4 packet that carries the ICMP `message` is no flow.
pub(crate) fn reject_ipv4(message: &[u8]) -> Reject {
    match Header::parse(message) {
        Ok(header) if is_error_ipv4(header.kind) => NotOurs::IcmpError.into(),
        Ok(_) => NotOurs::Icmp.into(),
        Err(reason) => reason.into(),
    }
}

/// Why the IPv6 packet of `network` that carries the ICMPv6 `message` is no flow.
pub(crate) fn reject_ipv6(message: &[u8], network: &ipv6::Header) -> Reject {
    match Header::parse(message) {
        Ok(header) if header.kind == NEIGHBOUR_SOLICITATION => {
            match Solicitation::parse(message, network) {
                Ok(_) => NotOurs::NeighbourSolicitation.into(),
                Err(reason) => reason.into(),
            }
        }
        Ok(header) if is_error_ipv6(header.kind) => NotOurs::IcmpError.into(),
        Ok(_) => NotOurs::Icmp.into(),
        Err(reason) => reason.into(),
    }
}

#[cfg(test)]
mod tests;
