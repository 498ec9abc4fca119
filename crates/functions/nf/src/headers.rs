//! What rules ask of a packet: addresses, protocol, ports.
//!
//! Everything that could be read in two ways is not read at all: a rule must not be got round by a
//! packet that somebody behind us understands differently.

use std::net::IpAddr;

use wire::{ethernet, ipv4, ipv6, vlan};

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// What follows the IP header and all extension headers.
    pub(crate) protocol: u8,
    /// Of a protocol that has ports; later fragments have none.
    pub(crate) ports: Option<(u16, u16)>,
}

/// The same, and what stands behind the headers of IP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<'a> {
    pub(crate) headers: Headers,
    pub(crate) payload: &'a [u8],
    pub(crate) fragment: Option<Fragment>,
    /// Routers that an IPv6 packet may still pass; 0 of IPv4.
    pub(crate) hops: u8,
}

/// Of a packet in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) id: u32,
    pub(crate) is_first: bool,
}

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// A fragment that is cut so that its ports are in another one, or overwrite those of another
    /// one (RFC 1858, RFC 3128).
    TinyFragment,
    /// Headers that contradict themselves or end too early, a source route, a chain of extension
    /// headers or VLAN tags that is too long to be followed.
    Unreadable,
}

/// Where the hop limit of an IPv6 header is.
const HOP_LIMIT: usize = 7;

/// Whether the protocol has ports: TCP, UDP, DCCP, SCTP and UDP-Lite, all of them in the first four
/// bytes.
pub(crate) const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

impl Headers {
    /// Reads the packet in `frame`, behind VLAN tags if there are any.
    #[inline]
    pub(crate) fn read(frame: &[u8]) -> Result<Self, Unread> {
        Whole::read(frame).map(|whole| whole.headers)
    }
}

impl<'a> Whole<'a> {
    /// As [`Headers::read`].
    #[inline]
    pub(crate) fn read(frame: &'a [u8]) -> Result<Self, Unread> {
        let link = ethernet::Header::parse(frame).map_err(|_| Unread::Unreadable)?;
        let network = vlan::skip_tags(frame, link.ether_type).map_err(|_| Unread::Unreadable)?;
        let packet = frame.get(usize::from(network.offset)..).unwrap_or_default();
        match network.ether_type {
            ethernet::IPV4 => read4(packet),
            ethernet::IPV6 => read6(packet),
            _ => Err(Unread::NotIp),
        }
    }
}

#[inline]
fn read4(packet: &[u8]) -> Result<Whole<'_>, Unread> {
    const OFFSET: u16 = 0x1fff;
    let header = ipv4::Header::parse(packet).map_err(|_| Unread::Unreadable)?;
    let [_, _, _, _, i0, i1, f0, f1, ..] = *packet else { return Err(Unread::Unreadable) };
    let offset = u16::from_be_bytes([f0, f1]) & OFFSET;
    let payload = packet
        .get(usize::from(header.header_bytes)..usize::from(header.total_bytes))
        .unwrap_or_default();
    let piece = header.is_fragment.then_some(offset);
    let ports = read_ports(header.protocol, payload, piece)?;
    let (source, destination) = (header.source.into(), header.destination.into());
    let id = u32::from(u16::from_be_bytes([i0, i1]));
    Ok(Whole {
        headers: Headers { source, destination, protocol: header.protocol, ports },
        payload,
        fragment: header.is_fragment.then_some(Fragment { id, is_first: offset == 0 }),
        hops: 0,
    })
}

#[inline]
fn read6(packet: &[u8]) -> Result<Whole<'_>, Unread> {
    let header = ipv6::Header::parse(packet).map_err(|_| Unread::Unreadable)?;
    let payload =
        packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes()).unwrap_or_default();
    let last = follow(payload, header.next_header).ok_or(Unread::Unreadable)?;
    let piece = last.fragment.map(|(offset, _)| offset);
    let ports = read_ports(last.protocol, last.payload, piece)?;
    let (source, destination) = (header.source.into(), header.destination.into());
    Ok(Whole {
        headers: Headers { source, destination, protocol: last.protocol, ports },
        payload: last.payload,
        fragment: last.fragment.map(|(offset, id)| Fragment { id, is_first: offset == 0 }),
        hops: packet.get(HOP_LIMIT).copied().unwrap_or_default(),
    })
}

/// The header at the start of an IPv4 packet, whatever its options are; nothing when its lengths do
/// not agree with the bytes that hold it.
pub(crate) fn fixed4(packet: &[u8]) -> Option<ipv4::Header> {
    const MORE_OR_OFFSET: u16 = 0x3fff;
    let fixed = packet.first_chunk::<20>()?;
    let header_bytes = u16::from(fixed[0] & 0x0f) * 4;
    let total_bytes = u16::from_be_bytes([fixed[2], fixed[3]]);
    let agree = fixed[0] >> 4 == 4
        && header_bytes >= ipv4::MIN_HEADER_BYTES
        && total_bytes >= header_bytes
        && usize::from(total_bytes) <= packet.len();
    agree.then_some(ipv4::Header {
        header_bytes,
        total_bytes,
        protocol: fixed[9],
        is_fragment: u16::from_be_bytes([fixed[6], fixed[7]]) & MORE_OR_OFFSET != 0,
        source: [fixed[12], fixed[13], fixed[14], fixed[15]],
        destination: [fixed[16], fixed[17], fixed[18], fixed[19]],
    })
}

/// The ports of a payload that is whole, or the part at `fragment` times eight bytes.
#[inline]
fn read_ports(
    protocol: u8,
    payload: &[u8],
    fragment: Option<u16>,
) -> Result<Option<(u16, u16)>, Unread> {
    match (fragment, payload) {
        _ if !has_ports(protocol) => Ok(None),
        // It would write over the flags of the first one.
        (Some(1), _) if protocol == ipv4::TCP => Err(Unread::TinyFragment),
        (Some(1..), _) => Ok(None),
        (_, [s0, s1, d0, d1, ..]) => {
            Ok(Some((u16::from_be_bytes([*s0, *s1]), u16::from_be_bytes([*d0, *d1]))))
        }
        (Some(_), _) => Err(Unread::TinyFragment),
        (None, _) => Err(Unread::Unreadable),
    }
}

/// What stands behind the extension headers of an IPv6 packet.
pub(crate) struct Last<'a> {
    pub(crate) protocol: u8,
    pub(crate) payload: &'a [u8],
    /// Where in the whole this part is, in units of eight bytes, and the number that all parts of
    /// the packet have; nothing when it is whole.
    pub(crate) fragment: Option<(u16, u32)>,
}

/// Follows the chain that begins with `next_header` to the first header that is no extension.
/// Unlike [`ipv6::walk`] it goes on behind fragment headers and source routes. Nothing when the
/// chain is cut off or too long, or is itself in pieces.
#[inline]
pub(crate) fn follow(payload: &[u8], next_header: u8) -> Option<Last<'_>> {
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    let (mut protocol, mut payload, mut fragment) = (next_header, payload, None);
    for _ in 0..ipv6::MAX_EXTENSIONS {
        let bytes = match (protocol, payload) {
            // A later part could write over the ports, which are not where such a part begins.
            (0 | 43 | 60 | FRAGMENT | AUTHENTICATION, _) if fragment.is_some() => return None,
            (FRAGMENT, [next, _, high, low, i0, i1, i2, i3, ..]) => {
                let word = u16::from_be_bytes([*high, *low]);
                // Without offset and more to come it is whole (RFC 6946).
                let id = u32::from_be_bytes([*i0, *i1, *i2, *i3]);
                fragment = (word & 0xfff9 != 0).then_some((word >> 3, id));
                if word >> 3 != 0 {
                    // What this part begins with is anybody's guess.
                    return Some(Last { protocol: *next, payload: payload.get(8..)?, fragment });
                }
                8
            }
            (AUTHENTICATION, [_, words, ..]) => (usize::from(*words) + 2) * 4,
            (0 | 43 | 60, [_, words, ..]) => (usize::from(*words) + 1) * 8,
            (0 | 43 | 60 | FRAGMENT | AUTHENTICATION, _) => return None,
            _ => return Some(Last { protocol, payload, fragment }),
        };
        protocol = *payload.first()?;
        payload = payload.get(bytes..)?;
    }
    None
}

#[cfg(test)]
mod tests;
