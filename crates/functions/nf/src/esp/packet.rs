//! The IP packet in a frame: as much of it as a tunnel has to know.

use std::ops::Range;

use wire::checksum::{self, Sum};
use wire::{ethernet, ipv4, ipv6, vlan};

use super::selector::{self, Address};

/// An IP packet whose header is right.
///
/// `l3 + header_bytes <= l3 + total_bytes <=` the frame's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Bytes from the frame's start to the IP header, at least 14.
    pub(crate) l3: usize,
    pub(crate) is_ipv4: bool,
    pub(crate) from: Address,
    pub(crate) to: Address,
    /// Of IPv4 with its options; of IPv6 without extensions.
    pub(crate) header_bytes: usize,
    /// Of header and payload; what lies behind is padding of the link.
    pub(crate) total_bytes: usize,
    /// Protocol, or next header, of the first header.
    pub(crate) protocol: u8,
    pub(crate) is_fragment: bool,
    /// Time to live, or hop limit.
    pub(crate) ttl: u8,
    /// Type of service, or traffic class: DSCP and ECN.
    pub(crate) tos: u8,
}

/// Addresses of ours that errors come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) four: [u8; 4],
    /// `None`: no errors of IPv6 are sent.
    pub(crate) six: Option<[u8; 16]>,
}

/// What a frame holds.
pub(crate) enum Found {
    Packet(Packet),
    /// Neither IPv4 nor IPv6.
    Other,
    /// Lengths, version or checksum of its headers are wrong, or they carry what no tunnel may.
    Malformed,
}

/// Looks for the IP packet in a frame.
#[inline]
pub(crate) fn find(frame: &[u8]) -> Found {
    let Ok(link) = ethernet::Header::parse(frame) else {
        return Found::Malformed;
    };
    let Ok(payload) = vlan::skip_tags(frame, link.ether_type) else {
        return Found::Other;
    };
    let l3 = usize::from(payload.offset);
    let packet = match payload.ether_type {
        ethernet::IPV4 => Packet::ipv4(&frame[l3..], l3),
        ethernet::IPV6 => Packet::ipv6(&frame[l3..], l3),
        _ => return Found::Other,
    };
    packet.map_or(Found::Malformed, Found::Packet)
}

impl Packet {
    /// Reads a packet of IPv4 that stands `l3` bytes from its frame's start.
    #[inline]
    pub(crate) fn ipv4(bytes: &[u8], l3: usize) -> Option<Self> {
        let header = ipv4::Header::parse(bytes).ok()?;
        let header_bytes = usize::from(header.header_bytes);
        if Sum::ZERO.bytes(&bytes[..header_bytes]).fold() != 0xffff {
            return None;
        }
        Some(Self {
            l3,
            is_ipv4: true,
            from: selector::of_ipv4(header.source),
            to: selector::of_ipv4(header.destination),
            header_bytes,
            total_bytes: usize::from(header.total_bytes),
            protocol: header.protocol,
            is_fragment: header.is_fragment,
            ttl: bytes[8],
            tos: bytes[1],
        })
    }

    /// Reads a packet of IPv6 that stands `l3` bytes from its frame's start.
    #[inline]
    pub(crate) fn ipv6(bytes: &[u8], l3: usize) -> Option<Self> {
        let header = ipv6::Header::parse(bytes).ok()?;
        Some(Self {
            l3,
            is_ipv4: false,
            from: selector::of_ipv6(header.source)?,
            to: selector::of_ipv6(header.destination)?,
            header_bytes: usize::from(ipv6::HEADER_BYTES),
            total_bytes: header.total_bytes(),
            protocol: header.next_header,
            is_fragment: header.next_header == FRAGMENT_HEADER,
            ttl: header.hop_limit,
            tos: bytes[0] << 4 | bytes[1] >> 4,
        })
    }

    /// Whether routers on its way may fragment it: of IPv4, unless it says that they may not.
    #[inline]
    pub(crate) fn may_be_fragmented(&self, frame: &[u8]) -> bool {
        const DO_NOT_FRAGMENT: u8 = 0x40;
        self.is_ipv4 && frame.get(self.l3 + 6).is_some_and(|flags| flags & DO_NOT_FRAGMENT == 0)
    }

    /// Where its ESP is, if it carries ESP. Extension headers may stand before it.
    #[inline]
    pub(crate) fn esp(&self, frame: &[u8]) -> Esp {
        let end = self.l3 + self.total_bytes;
        let start = self.l3 + self.header_bytes;
        if self.protocol == ipv4::ESP {
            return if self.is_fragment { Esp::Fragment } else { Esp::Whole(start..end) };
        }
        if self.is_ipv4 || self.protocol == ipv4::TCP || self.protocol == ipv4::UDP {
            return Esp::None;
        }
        self.esp_behind_extensions(frame.get(start..end).unwrap_or_default(), start)
    }

    #[cold]
    fn esp_behind_extensions(&self, payload: &[u8], start: usize) -> Esp {
        if self.is_fragment && payload.first() == Some(&ipv4::ESP) {
            return Esp::Fragment;
        }
        match ipv6::walk(payload, self.protocol) {
            Ok(transport) if transport.protocol == ipv4::ESP => {
                Esp::Whole(start + usize::from(transport.extension_bytes)..start + payload.len())
            }
            _ => Esp::None,
        }
    }
}

const FRAGMENT_HEADER: u8 = 44;

/// The ESP of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Esp {
    /// From the SPI to the ICV, in bytes of the frame.
    Whole(Range<usize>),
    /// A piece of it, and only the whole can be verified.
    Fragment,
    None,
}

/// Lowers the time to live, which is more than one, of the header at the start of `packet`.
#[inline]
pub(crate) fn lower_ttl(packet: &mut [u8], is_ipv4: bool) {
    if !is_ipv4 {
        packet[7] -= 1;
        return;
    }
    let old = u16::from_be_bytes([packet[8], packet[9]]);
    packet[8] -= 1;
    let new = u16::from_be_bytes([packet[8], packet[9]]);
    update_checksum(packet, old, new);
}

/// Writes the two bits of ECN.
#[inline]
pub(crate) fn set_ecn(packet: &mut [u8], is_ipv4: bool, ecn: u8) {
    if !is_ipv4 {
        packet[1] = packet[1] & 0xcf | ecn << 4;
        return;
    }
    let old = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] = packet[1] & 0xfc | ecn;
    let new = u16::from_be_bytes([packet[0], packet[1]]);
    update_checksum(packet, old, new);
}

fn update_checksum(packet: &mut [u8], old: u16, new: u16) {
    let sum = checksum::update(u16::from_be_bytes([packet[10], packet[11]]), old, new);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}
