//! Packets as both ends of a chain see them, read and checked apart from the functions' own code.

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::checksum::Sum;
use wire::ipv4;

use crate::packets::OUR_MAC;

/// Bytes of the link header.
pub(super) const LINK: usize = 14;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Bytes of an ICMP error before the packet that it quotes.
const ICMP_HEADER: usize = 8;

/// Ends and contents of a packet; of an echo both ports are its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said<'a> {
    pub(super) protocol: u8,
    pub(super) from: SocketAddrV4,
    pub(super) to: SocketAddrV4,
    /// The transport header behind ports and checksums, and the payload.
    pub(super) rest: &'a [u8],
}

/// What a packet is of, from the end that sent it.
pub(super) type Name = (u8, SocketAddrV4, SocketAddrV4);

/// The IPv4 packet in an untagged frame, cut to its length.
pub(super) fn ipv4_of(frame: &[u8]) -> Option<&[u8]> {
    let packet = frame.get(LINK..)?;
    let header = ipv4::Header::parse(packet).ok()?;
    (frame[12..14] == [8, 0]).then(|| &packet[..usize::from(header.total_bytes)])
}

/// What the packet says, if it is whole, and of TCP, UDP or an echo.
pub(super) fn said(packet: &[u8]) -> Option<Said<'_>> {
    let (head, segment) = split(packet)?;
    let half = |at: usize| Some(u16::from_be_bytes(*segment.get(at..)?.first_chunk()?));
    let protocol = head[9];
    let is_fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0;
    let (from, to, rest) = match protocol {
        _ if is_fragment => return None,
        // From the sequence number on; its checksum is left out below.
        ipv4::TCP => (half(0)?, half(2)?, segment.get(4..)?),
        ipv4::UDP => (half(0)?, half(2)?, segment.get(8..)?),
        ipv4::ICMP if matches!(segment.first(), Some(0 | 8)) => {
            (half(4)?, half(4)?, segment.get(6..)?)
        }
        _ => return None,
    };
    let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
    let from = SocketAddrV4::new(address(12), from);
    Some(Said { protocol, from, to: SocketAddrV4::new(address(16), to), rest })
}

/// The packet that an ICMP error quotes.
pub(super) fn quoted(packet: &[u8]) -> Option<&[u8]> {
    let (head, message) = split(packet)?;
    let is_error = head[9] == ipv4::ICMP && matches!(message.first(), Some(3 | 11 | 12));
    message.get(ICMP_HEADER..).filter(|_| is_error)
}

/// The ends of a packet of which only the beginning is there.
pub(super) fn name_of_quoted(packet: &[u8]) -> Option<Name> {
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    let segment = packet.get(header_bytes..)?;
    let half = |at: usize| Some(u16::from_be_bytes(*segment.get(at..)?.first_chunk()?));
    let (from, to) = match *packet.get(9)? {
        ipv4::TCP | ipv4::UDP => (half(0)?, half(2)?),
        ipv4::ICMP => (half(4)?, half(4)?),
        _ => return None,
    };
    let address = |at: usize| Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?));
    Some((packet[9], SocketAddrV4::new(address(12)?, from), SocketAddrV4::new(address(16)?, to)))
}

fn split(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    let (head, rest) = packet.split_at_checked(header_bytes)?;
    (head.len() >= 20).then_some((head, rest))
}

/// Whether the checksum of its IP header is right.
pub(super) fn is_header_right(packet: &[u8]) -> bool {
    split(packet).is_some_and(|(head, _)| Sum::ZERO.bytes(head).fold() == 0xffff)
}

/// Whether the transport's checksum of a whole packet is right; nothing of one that has none.
pub(super) fn is_sum_right(packet: &[u8]) -> Option<bool> {
    let (head, segment) = split(packet)?;
    if u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
        return None;
    }
    let four = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
    let length = u16::try_from(segment.len()).ok()?;
    let pseudo = || Sum::ZERO.pseudo_ipv4(four(12), four(16), head[9], length);
    match head[9] {
        ipv4::TCP if segment.len() >= 20 => Some(pseudo().bytes(segment).fold() == 0xffff),
        // Of what lies behind it UDP says nothing here.
        ipv4::UDP => {
            let &[_, _, _, _, l0, l1, s0, s1, ..] = segment else { return None };
            let is_exact = u16::from_be_bytes([l0, l1]) == length;
            (is_exact && (s0, s1) != (0, 0)).then(|| pseudo().bytes(segment).fold() == 0xffff)
        }
        ipv4::ICMP if segment.len() >= ICMP_HEADER => {
            Some(Sum::ZERO.bytes(segment).fold() == 0xffff)
        }
        _ => None,
    }
}

/// A packet with right checksums.
pub(super) fn build((protocol, from, to): Name, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let sum_at = match protocol {
        ipv4::TCP => 16,
        ipv4::UDP => 6,
        _ => 2,
    };
    let (f, t) = (from.port().to_be_bytes(), to.port().to_be_bytes());
    let mut segment = match protocol {
        ipv4::TCP => [&f[..], &t, header, payload].concat(),
        ipv4::UDP => {
            let length = (8 + payload.len() as u16).to_be_bytes();
            [&f[..], &t, &length, &[0, 0], payload].concat()
        }
        // Type and code; the identifier is the host's whose number it is.
        _ => {
            [&header[..2], &[0, 0], if header[0] == 8 { &f } else { &t }, &[0, 1], payload].concat()
        }
    };
    let total = (20 + segment.len()) as u16;
    let mut head = [0; 20];
    (head[0], head[8], head[9]) = (0x45, 64, protocol);
    head[2..4].copy_from_slice(&total.to_be_bytes());
    head[12..16].copy_from_slice(&from.ip().octets());
    head[16..20].copy_from_slice(&to.ip().octets());
    let sum = wire::checksum::of(&head);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    let (from, to) = (from.ip().octets(), to.ip().octets());
    let pseudo = match protocol {
        ipv4::ICMP => Sum::ZERO,
        _ => Sum::ZERO.pseudo_ipv4(from, to, protocol, total - 20),
    };
    let sum = pseudo.bytes(&segment).udp_checksum();
    segment[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
    [&OUR_MAC[..], &MAC, &[8, 0], &head, &segment].concat()
}

/// Leaves the checksum of a packet to whoever forwards it: only the sum of the pseudo-header is
/// there, as a kernel on a veth sends it.
pub(super) fn open_sum(frame: &mut [u8]) {
    if let Some((at, sum)) = frame.get(LINK..).and_then(pseudo_sum) {
        frame[LINK + at..LINK + at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Whether its checksum is left open so.
pub(super) fn is_open(packet: &[u8]) -> bool {
    pseudo_sum(packet).is_some_and(|(at, sum)| packet.get(at..at + 2) == Some(&sum.to_be_bytes()))
}

/// Where the checksum of a segment is, and the sum of its pseudo-header.
fn pseudo_sum(packet: &[u8]) -> Option<(usize, u16)> {
    let (head, segment) = split(packet)?;
    let at = match head[9] {
        ipv4::TCP => 16,
        ipv4::UDP => 6,
        _ => return None,
    };
    let four = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
    let length = segment.len() as u16;
    let sum = Sum::ZERO.pseudo_ipv4(four(12), four(16), head[9], length).fold();
    Some((head.len() + at, sum))
}

/// An ICMP error from `from` to `to` about a packet.
pub(super) fn complain(from: Ipv4Addr, to: Ipv4Addr, kind: [u8; 2], about: &[u8]) -> Vec<u8> {
    let quote = &about[..about.len().min(80)];
    let ends = (ipv4::ICMP, SocketAddrV4::new(from, 0), SocketAddrV4::new(to, 0));
    let mut frame = build(ends, &kind, quote);
    let message = &mut frame[LINK + 20..];
    message[4..8].copy_from_slice(&[0, 0, 5, 0]);
    message[2..4].fill(0);
    let sum = wire::checksum::of(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    frame
}
