//! What connection tracking reads of a packet.

use wire::tcp::TcpOption;
use wire::{ipv4, ipv6, tcp};

use super::icmp::{self, Message, Quoted};
use super::tcp::Segment;
use super::tuple::Tuple;
pub use crate::headers::Unread;
use crate::headers::{Fragment, Whole};

/// A packet, as far as its connection is told by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its ends.
    pub tuple: Tuple,
    pub(super) kind: Kind,
    pub(crate) fragment: Option<Fragment>,
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

impl Packet {
    /// Reads the packet in `frame`, behind VLAN tags if there are any.
    ///
    /// # Errors
    /// Why it is of no connection.
    #[inline]
    pub fn read(frame: &[u8]) -> Result<Self, Unread> {
        let Whole { headers, payload, fragment, hops } = Whole::read(frame)?;
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

    /// The ends of the packet that it complains about, if it is an ICMP error.
    #[inline]
    pub(crate) fn quoted_mut(&mut self) -> Option<&mut Tuple> {
        match &mut self.kind {
            Kind::Error(quoted) => Some(&mut quoted.tuple),
            _ => None,
        }
    }

    /// The flags of a TCP segment.
    #[inline]
    pub(crate) const fn tcp_flags(&self) -> Option<u8> {
        match &self.kind {
            Kind::Tcp(segment) => Some(segment.flags),
            _ => None,
        }
    }

    /// Whether it is a later fragment, which names no ports.
    #[inline]
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| !fragment.is_first)
    }

    /// Whether it is of IPv6 neighbour discovery, and cannot have come through a router (RFC 4861
    /// section 3.1): about a link, as ARP is, and of no connection. Redirects are not meant.
    #[inline]
    pub fn is_neighbour_discovery(&self) -> bool {
        self.kind == Kind::NeighbourDiscovery
    }
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
