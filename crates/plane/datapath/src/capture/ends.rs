//! The flow of a packet that may be the first piece of a longer one.

use std::net::{IpAddr, SocketAddr};

use wire::{FlowKey, Protocol, ethernet, ipv4};

/// Bytes of the tag in front of an EtherType, and the types that announce one (802.1Q, 802.1ad).
const TAG_BYTES: usize = 4;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const TAGS_MAX: usize = 2;

/// Addresses, ports and protocol, without a look at lengths and checksums: what leaves may be cut
/// and completed behind us. `None`: neither TCP nor UDP, or without ports in these bytes.
pub(super) fn flow(frame: &[u8]) -> Option<FlowKey> {
    let mut at = 12;
    let mut tags = 0;
    while TAGS.contains(&be16(frame, at)?) && tags < TAGS_MAX {
        at += TAG_BYTES;
        tags += 1;
    }
    let packet = frame.get(at + 2..)?;
    let (source, destination, protocol, l4): (IpAddr, IpAddr, u8, usize) = match be16(frame, at)? {
        // A fragment has no ports, or not only these.
        ethernet::IPV4 if be16(packet, 6)? & 0x3fff == 0 => {
            let header = usize::from(packet.first()? & 0xf) * 4;
            (address4(packet, 12)?, address4(packet, 16)?, *packet.get(9)?, header)
        }
        // With an extension header in between it is no TCP or UDP here.
        ethernet::IPV6 => (address6(packet, 8)?, address6(packet, 24)?, *packet.get(6)?, 40),
        _ => return None,
    };
    let protocol = match protocol {
        ipv4::TCP => Protocol::Tcp,
        ipv4::UDP => Protocol::Udp,
        _ => return None,
    };
    let source = SocketAddr::new(source, be16(packet, l4)?);
    FlowKey::new(protocol, source, SocketAddr::new(destination, be16(packet, l4 + 2)?))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn address4(packet: &[u8], at: usize) -> Option<IpAddr> {
    Some(IpAddr::from(*packet.get(at..)?.first_chunk::<4>()?))
}

fn address6(packet: &[u8], at: usize) -> Option<IpAddr> {
    Some(IpAddr::from(*packet.get(at..)?.first_chunk::<16>()?))
}
