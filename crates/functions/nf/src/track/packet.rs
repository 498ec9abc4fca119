//! What connection tracking reads of a packet.

use wire::tcp::TcpOption;
use wire::{ethernet, ipv4, ipv6, tcp, vlan};

use super::icmp::{self, Message, Quoted};
use super::tcp::Segment;
use super::tuple::Tuple;
pub use crate::headers::Unread;
use crate::headers::{Headers, follow};

/// A packet, as far as its connection is told by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its ends.
    pub tuple: Tuple,
    pub(super) kind: Kind,
    pub(super) fragment: Option<Fragment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp(Segment),
    Query {
        is_request: bool,
    },
    Error(Quoted),
    /// What hosts of one IPv6 link say to each other to find one another.
    NeighbourDiscovery,
    /// An ICMP message that is none of these.
    OtherIcmp,
    /// All else.
    Plain,
}

/// Of a packet in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) id: u32,
    pub(super) is_first: bool,
}

/// What stands behind the headers of IP.
struct Body<'a> {
    payload: &'a [u8],
    fragment: Option<Fragment>,
    /// Of IPv6; 0 of IPv4.
    hops: u8,
}

impl Packet {
    /// Reads the packet in `frame`, behind VLAN tags if there are any.
    ///
    /// # Errors
    /// Why it is of no connection.
    #[inline]
    pub fn read(frame: &[u8]) -> Result<Self, Unread> {
        let headers = Headers::read(frame)?;
        let number = |address| match address {
            std::net::IpAddr::V4(four) => four.to_ipv6_mapped().to_bits(),
            std::net::IpAddr::V6(six) => six.to_bits(),
        };
        let (source_port, destination_port) = headers.ports.unwrap_or_default();
        let mut tuple = Tuple {
            source: number(headers.source),
            destination: number(headers.destination),
            source_port,
            destination_port,
            protocol: headers.protocol,
            query: 0,
        };
        let is_ipv6 = headers.source.is_ipv6();
        let Body { payload, fragment, hops } = body(frame, is_ipv6).ok_or(Unread::Unreadable)?;
        if fragment.is_some_and(|fragment| !fragment.is_first) {
            return Ok(Self { tuple, kind: Kind::Plain, fragment });
        }
        let kind = match (headers.protocol, is_ipv6) {
            (ipv4::TCP, _) => {
                let short =
                    if fragment.is_some() { Unread::TinyFragment } else { Unread::Unreadable };
                Kind::Tcp(segment(payload).ok_or(short)?)
            }
            (ipv4::ICMP, false) | (ipv6::ICMPV6, true) => {
                match icmp::read(&mut tuple, is_ipv6, payload) {
                    Message::Query { is_request } => Kind::Query { is_request },
                    Message::Error(quoted) => Kind::Error(quoted),
                    Message::Other if is_ipv6 && icmp::is_neighbour_discovery(payload, hops) => {
                        Kind::NeighbourDiscovery
                    }
                    Message::Other => Kind::OtherIcmp,
                }
            }
            // Each is for the other version.
            (ipv4::ICMP | ipv6::ICMPV6, _) => return Err(Unread::Unreadable),
            _ => Kind::Plain,
        };
        Ok(Self { tuple, kind, fragment })
    }

    /// Whether it is of IPv6 neighbour discovery, and cannot have come through a router (RFC 4861
    /// section 3.1): about a link, as ARP is, and of no connection. Redirects are not meant.
    #[inline]
    pub fn is_neighbour_discovery(&self) -> bool {
        self.kind == Kind::NeighbourDiscovery
    }
}

/// The payload of a packet whose headers were found well.
#[inline]
fn body(frame: &[u8], is_ipv6: bool) -> Option<Body<'_>> {
    let link = ethernet::Header::parse(frame).ok()?;
    let offset = usize::from(vlan::skip_tags(frame, link.ether_type).ok()?.offset);
    let packet = frame.get(offset..)?;
    if is_ipv6 { body6(packet) } else { body4(packet) }
}

#[inline]
fn body4(packet: &[u8]) -> Option<Body<'_>> {
    const OFFSET: u16 = 0x1fff;
    let header = ipv4::Header::parse(packet).ok()?;
    let payload = packet.get(usize::from(header.header_bytes)..usize::from(header.total_bytes))?;
    let [i0, i1, f0, f1] = *packet.get(4..)?.first_chunk()?;
    let fragment = header.is_fragment.then_some(Fragment {
        id: u32::from(u16::from_be_bytes([i0, i1])),
        is_first: u16::from_be_bytes([f0, f1]) & OFFSET == 0,
    });
    Some(Body { payload, fragment, hops: 0 })
}

#[inline]
fn body6(packet: &[u8]) -> Option<Body<'_>> {
    let header = ipv6::Header::parse(packet).ok()?;
    let payload = packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes())?;
    let last = follow(payload, header.next_header)?;
    let fragment = last.fragment.map(|offset| Fragment {
        id: fragment_id(payload, header.next_header).unwrap_or_default(),
        is_first: offset == 0,
    });
    Some(Body { payload: last.payload, fragment, hops: *packet.get(7)? })
}

/// The identification in the fragment header of a chain that [`follow`] went along.
fn fragment_id(payload: &[u8], next_header: u8) -> Option<u32> {
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    let (mut next, mut payload) = (next_header, payload);
    for _ in 0..ipv6::MAX_EXTENSIONS {
        if next == FRAGMENT {
            return payload.get(4..)?.first_chunk().copied().map(u32::from_be_bytes);
        }
        let words = usize::from(*payload.get(1)?);
        let bytes = if next == AUTHENTICATION { (words + 2) * 4 } else { (words + 1) * 8 };
        next = *payload.first()?;
        payload = payload.get(bytes..)?;
    }
    None
}

#[inline]
fn segment(payload: &[u8]) -> Option<Segment> {
    /// The largest that counts (RFC 7323 section 2.3).
    const SCALE_MAX: u8 = 14;
    let header = tcp::Header::parse(payload).ok()?;
    let mut scale = None;
    if header.flags & tcp::SYN != 0 {
        for option in header.options(payload) {
            if let TcpOption::WindowScale(shift) = option {
                scale = Some(shift.min(SCALE_MAX));
            }
        }
    }
    Some(Segment {
        sequence: header.sequence,
        acknowledgement: header.acknowledgement,
        flags: header.flags,
        window: header.window,
        scale,
        payload_bytes: (payload.len() - usize::from(header.header_bytes)) as u32,
    })
}
