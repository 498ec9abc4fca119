//! ICMP messages: queries and their replies, and errors with the packet that they quote.

use wire::{ipv4, ipv6};

use super::tuple::Tuple;
use crate::headers::has_ports;

/// The packet that an error is about, as far as it is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quoted {
    pub(super) tuple: Tuple,
    /// Of TCP.
    pub(super) sequence: Option<u32>,
}

/// What a message is.
pub(super) enum Message {
    Query { is_request: bool },
    Error(Quoted),
    Other,
}

/// Types of queries and of the replies to them (RFC 792, RFC 950; RFC 4443).
const QUERIES4: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
const QUERIES6: [(u8, u8); 1] = [(128, 129)];
/// Destination unreachable, time exceeded, parameter problem. Redirects and source quenches are not
/// for somebody else's connections.
const ERRORS4: [u8; 3] = [3, 11, 12];
/// The same, and packet too big.
const ERRORS6: [u8; 4] = [1, 2, 3, 4];

/// What the message in `payload` is; of a query the tuple gets its identifier.
pub(super) fn read(tuple: &mut Tuple, is_ipv6: bool, payload: &[u8]) -> Message {
    let (queries, errors): (&[_], &[_]) =
        if is_ipv6 { (&QUERIES6, &ERRORS6) } else { (&QUERIES4, &ERRORS4) };
    let &[kind, _, _, _, id0, id1, _, _, ..] = payload else { return Message::Other };
    if let Some(&(request, _)) = queries.iter().find(|(ask, reply)| *ask == kind || *reply == kind)
    {
        let id = u16::from_be_bytes([id0, id1]);
        (tuple.source_port, tuple.destination_port, tuple.query) = (id, id, request);
        return Message::Query { is_request: kind == request };
    }
    if !errors.contains(&kind) {
        return Message::Other;
    }
    let inner = payload.get(8..).unwrap_or_default();
    let quoted = if is_ipv6 { quoted6(inner) } else { quoted4(inner) };
    quoted.map_or(Message::Other, Message::Error)
}

/// Whether it is of neighbour discovery, redirects aside, and from the same link.
pub(super) fn is_neighbour_discovery(payload: &[u8], hops: u8) -> bool {
    hops == u8::MAX && matches!(payload.first(), Some(133..=136))
}

fn quoted4(packet: &[u8]) -> Option<Quoted> {
    const OFFSET: u16 = 0x1fff;
    let head: &[u8; 20] = packet.first_chunk()?;
    let header_bytes = usize::from(head[0] & 0x0f) * 4;
    let offset = u16::from_be_bytes([head[6], head[7]]) & OFFSET;
    if head[0] >> 4 != 4 || header_bytes < 20 || offset != 0 {
        return None;
    }
    let address = |at: usize| -> Option<u128> {
        let four: [u8; 4] = *head.get(at..)?.first_chunk()?;
        Some(std::net::Ipv4Addr::from(four).to_ipv6_mapped().to_bits())
    };
    quoted(address(12)?, address(16)?, head[9], packet.get(header_bytes..)?, &QUERIES4)
}

fn quoted6(packet: &[u8]) -> Option<Quoted> {
    let head: &[u8; 40] = packet.first_chunk()?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let address =
        |at: usize| -> Option<u128> { Some(u128::from_be_bytes(*head.get(at..)?.first_chunk()?)) };
    let last = crate::headers::follow(packet.get(40..)?, head[6])?;
    if last.fragment.is_some_and(|(offset, _)| offset != 0) {
        return None;
    }
    quoted(address(8)?, address(24)?, last.protocol, last.payload, &QUERIES6)
}

fn quoted(
    source: u128,
    destination: u128,
    protocol: u8,
    payload: &[u8],
    queries: &[(u8, u8)],
) -> Option<Quoted> {
    let word = |at: usize| payload.get(at..)?.first_chunk().copied().map(u16::from_be_bytes);
    let mut tuple =
        Tuple { source, destination, source_port: 0, destination_port: 0, protocol, query: 0 };
    let mut sequence = None;
    match protocol {
        ipv4::ICMP | ipv6::ICMPV6 => {
            let kind = *payload.first()?;
            let (request, _) =
                queries.iter().find(|(ask, reply)| *ask == kind || *reply == kind)?;
            let id = word(4)?;
            (tuple.source_port, tuple.destination_port, tuple.query) = (id, id, *request);
        }
        _ if has_ports(protocol) => {
            (tuple.source_port, tuple.destination_port) = (word(0)?, word(2)?);
            if protocol == ipv4::TCP {
                sequence = payload.get(4..)?.first_chunk().copied().map(u32::from_be_bytes);
            }
        }
        _ => {}
    }
    Some(Quoted { tuple, sequence })
}
