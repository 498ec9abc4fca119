//! Packets of which only the start is there: their length fields are made to say so.
//!
//! A capture cut by `tcpdump -s`, or a packet longer than a frame (a jumbo, or one that the NIC was
//! yet to segment), still has its headers, and steering looks at nothing else. Checksums cover what
//! is not there, so nobody can say whether they are right.

use wire::{checksum, ethernet, ipv4, ipv6, udp, vlan};

/// Gives a TCP packet that says to be nothing long the length that it had on its link: a NIC was
/// yet to segment it when it was captured, and some drivers leave the length to that.
pub(crate) fn complete(frame: &mut [u8], wire_bytes: usize) {
    let _ = complete_header(frame, wire_bytes);
}

fn complete_header(frame: &mut [u8], wire_bytes: usize) -> Option<()> {
    const NEXT_HEADER: usize = 6;
    let link = ethernet::Header::parse(frame).ok()?;
    let network = vlan::skip_tags(frame, link.ether_type).ok()?;
    let l3 = usize::from(network.offset);
    let len = wire_bytes.checked_sub(l3)?;
    let most = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
    let packet = frame.get_mut(l3..)?;
    match network.ether_type {
        ethernet::IPV4 if half(packet, 2)? == 0 && *packet.get(9)? == ipv4::TCP => {
            let sum = checksum::update(half(packet, 10)?, 0, most(len));
            put(packet, 2, most(len));
            put(packet, 10, sum);
        }
        ethernet::IPV6 if half(packet, 4)? == 0 && *packet.get(NEXT_HEADER)? == ipv4::TCP => {
            put(packet, 4, most(len.checked_sub(usize::from(ipv6::HEADER_BYTES))?));
        }
        _ => {}
    }
    Some(())
}

/// Shortens the IP and UDP lengths of `frame`, a packet that had `wire_bytes` on its link, to what
/// is there. A length that did not fit the link either stays: that is the packet's own mistake.
pub(crate) fn shorten(frame: &mut [u8], wire_bytes: usize) {
    // Whatever is missing for it, classification will find and name.
    let _ = shorten_headers(frame, wire_bytes);
}

fn shorten_headers(frame: &mut [u8], wire_bytes: usize) -> Option<()> {
    let link = ethernet::Header::parse(frame).ok()?;
    let network = vlan::skip_tags(frame, link.ether_type).ok()?;
    let l3 = usize::from(network.offset);
    let wire_bytes = wire_bytes.checked_sub(l3)?;
    let packet = frame.get_mut(l3..)?;
    let (protocol, l4, len) = match network.ether_type {
        ethernet::IPV4 => shorten_ipv4(packet, wire_bytes)?,
        ethernet::IPV6 => shorten_ipv6(packet, wire_bytes)?,
        _ => return None,
    };
    let segment = packet.get_mut(l4..)?;
    if protocol == ipv4::UDP {
        let there = u16::try_from(segment.len()).ok()?;
        let claimed = half(segment, 4)?;
        // What fitted the packet before.
        if claimed > there && usize::from(claimed) <= len.saturating_sub(l4) {
            put(segment, 4, there.max(udp::HEADER_BYTES));
        }
    }
    Some(())
}

/// The protocol, where its header is, and the length that the packet claimed.
fn shorten_ipv4(packet: &mut [u8], wire_bytes: usize) -> Option<(u8, usize, usize)> {
    let claimed = half(packet, 2)?;
    if usize::from(claimed) > wire_bytes {
        return None;
    }
    if usize::from(claimed) > packet.len() {
        let there = u16::try_from(packet.len()).ok()?;
        let sum = checksum::update(half(packet, 10)?, claimed, there);
        put(packet, 2, there);
        put(packet, 10, sum);
    }
    // A fragment's payload need not start with a header.
    let is_fragment = half(packet, 6)? & 0x3fff != 0;
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    (!is_fragment).then_some((*packet.get(9)?, header_bytes, claimed.into()))
}

fn shorten_ipv6(packet: &mut [u8], wire_bytes: usize) -> Option<(u8, usize, usize)> {
    let header_bytes = usize::from(ipv6::HEADER_BYTES);
    let claimed = usize::from(half(packet, 4)?) + header_bytes;
    let payload = packet.get(header_bytes..)?;
    if claimed > wire_bytes {
        return None;
    }
    let there = u16::try_from(payload.len()).ok()?;
    let transport = ipv6::walk(payload, *packet.get(6)?).ok();
    if claimed > packet.len() {
        put(packet, 4, there);
    }
    let transport = transport?;
    let l4 = header_bytes + usize::from(transport.extension_bytes);
    Some((transport.protocol, l4, claimed))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Writes a number where one was read before.
fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}
