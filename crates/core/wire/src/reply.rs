//! A received UDP packet turned around where it stands.

use std::ops::Range;

use crate::bytes::{array, put, swap_adjacent};
use crate::checksum::{self, Sum};
use crate::{ethernet, ipv4, ipv6, udp};

/// What a host sends with (RFC 1700); no path in use has as many routers.
const HOP_LIMIT: u8 = 64;
/// RFC 3168: a congestion mark belongs to the direction it was made in.
const NOT_ECN: u8 = !0x03;

/// A UDP packet whose every length has been checked against its frame.
struct Datagram {
    l3: usize,
    l4: usize,
    /// What the length field of the IP header counts besides the UDP packet: the IPv4 header, or
    /// IPv6 extension headers.
    network_bytes: u16,
    is_ipv6: bool,
    /// See [`ipv6::Transport::is_signed`].
    is_signed: bool,
    /// Whether both addresses are of one host each.
    are_hosts: bool,
    payload_bytes: u16,
}

impl Datagram {
    /// Reads `frame` again: offsets that travelled with a packet are not trusted.
    #[inline]
    fn parse(frame: &[u8], l3_offset: u16, l4_offset: u16) -> Option<Self> {
        if l3_offset < ethernet::HEADER_BYTES {
            return None;
        }
        let (l3, l4) = (usize::from(l3_offset), usize::from(l4_offset));
        let header_bytes = l4_offset.checked_sub(l3_offset)?;
        let packet = frame.get(l3..)?;
        if packet.first()? >> 4 == 6 {
            let header = ipv6::Header::parse(packet).ok()?;
            let payload = packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes())?;
            let transport = ipv6::walk(payload, header.next_header).ok()?;
            let is_here = transport.protocol == ipv4::UDP
                && header_bytes == ipv6::HEADER_BYTES + transport.extension_bytes;
            let segment = payload.get(usize::from(transport.extension_bytes)..)?;
            is_here.then_some(Self {
                l3,
                l4,
                network_bytes: transport.extension_bytes,
                is_ipv6: true,
                is_signed: transport.is_signed,
                are_hosts: header.check_addresses().is_ok(),
                payload_bytes: udp::Header::parse(segment).ok()?.payload_bytes(),
            })
        } else {
            let header = ipv4::Header::parse(packet).ok()?;
            let is_here = header.protocol == ipv4::UDP
                && !header.is_fragment
                && header_bytes == header.header_bytes;
            let segment =
                packet.get(usize::from(header.header_bytes)..usize::from(header.total_bytes))?;
            is_here.then_some(Self {
                l3,
                l4,
                network_bytes: header_bytes,
                is_ipv6: false,
                is_signed: false,
                are_hosts: header.check_addresses().is_ok(),
                payload_bytes: udp::Header::parse(segment).ok()?.payload_bytes(),
            })
        }
    }
}

/// Where the payload of the UDP packet in `frame` is; nothing when there is no whole UDP packet at
/// these offsets.
#[inline]
pub fn payload_range(frame: &[u8], l3_offset: u16, l4_offset: u16) -> Option<Range<usize>> {
    let datagram = Datagram::parse(frame, l3_offset, l4_offset)?;
    let start = datagram.l4 + usize::from(udp::HEADER_BYTES);
    Some(start..start + usize::from(datagram.payload_bytes))
}

/// Turns the UDP packet in `frame` around, in place: MAC addresses, IP addresses and ports change
/// places, the hop limit starts anew, congestion marks go, the payload is cut to `payload_len`
/// bytes if that is given. Both checksums are computed from nothing, because the received ones may
/// be partial. VLAN tags, IPv4 options and IPv6 extension headers stay.
///
/// `flow_offsets` are those of the IP and UDP header. Returns the new length of the frame; nothing,
/// and the frame as it was, when there is no whole UDP packet between two hosts at these offsets,
/// when its payload is shorter than asked, or when an IPv6 authentication header signs it.
#[inline]
pub fn turn_around(
    frame: &mut [u8],
    flow_offsets: (u16, u16),
    payload_len: Option<u16>,
) -> Option<u16> {
    let datagram = Datagram::parse(frame, flow_offsets.0, flow_offsets.1)?;
    let Datagram { l3, l4, network_bytes, is_ipv6, is_signed, are_hosts, payload_bytes } = datagram;
    let payload_bytes = match payload_len {
        Some(wanted) if wanted > payload_bytes => return None,
        Some(wanted) => wanted,
        None => payload_bytes,
    };
    let udp_bytes = udp::HEADER_BYTES + payload_bytes;
    let frame_bytes = u16::try_from(l4 + usize::from(udp_bytes)).ok()?;
    if is_signed || !are_hosts {
        return None;
    }

    // Everything below was found to lie within the frame; `?` and `&&` are for the compiler.
    let [length_high, length_low] = udp_bytes.to_be_bytes();
    let network_length = (network_bytes + udp_bytes).to_be_bytes();
    let mut is_written = ethernet::swap_addresses(frame)
        && swap_adjacent::<2>(frame, l4)
        && put(frame, l4 + 4, [length_high, length_low, 0, 0]);
    let pseudo = if is_ipv6 {
        // The traffic class lies across two bytes, its last two bits in the upper half of this.
        *frame.get_mut(l3 + 1)? &= NOT_ECN.rotate_left(4);
        is_written = is_written
            && put(frame, l3 + 4, network_length)
            && put(frame, l3 + 7, [HOP_LIMIT])
            && swap_adjacent::<16>(frame, l3 + 8);
        let (source, destination) = (array(frame, l3 + 8)?, array(frame, l3 + 24)?);
        Sum::ZERO.pseudo_ipv6(source, destination, ipv4::UDP, udp_bytes)
    } else {
        *frame.get_mut(l3 + 1)? &= NOT_ECN;
        is_written = is_written
            && put(frame, l3 + 2, network_length)
            && put(frame, l3 + 8, [HOP_LIMIT])
            && put(frame, l3 + 10, [0, 0])
            && swap_adjacent::<4>(frame, l3 + 12);
        let header_checksum = checksum::of(frame.get(l3..l4)?);
        is_written = is_written && put(frame, l3 + 10, header_checksum.to_be_bytes());
        let (source, destination) = (array(frame, l3 + 12)?, array(frame, l3 + 16)?);
        Sum::ZERO.pseudo_ipv4(source, destination, ipv4::UDP, udp_bytes)
    };
    let segment = frame.get(l4..usize::from(frame_bytes))?;
    let checksum = pseudo.bytes(segment).udp_checksum();
    is_written = is_written && put(frame, l4 + 6, checksum.to_be_bytes());
    is_written.then_some(frame_bytes)
}

#[cfg(test)]
mod tests;
