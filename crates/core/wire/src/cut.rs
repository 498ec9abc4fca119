//! A TCP segment longer than its link takes, cut into segments that it takes.
//!
//! Kernels hand such segments to each other, and to us: a sender on the same host leaves the
//! cutting to a device (TSO), a receiver puts arriving segments together (GRO;
//! Documentation/networking/segmentation-offloads.rst of the kernel). A TCP stream has no other
//! borders than its bytes, so it may be cut anywhere; of a UDP datagram nothing says where.

use crate::bytes::{be16, put};
use crate::checksum::{self, Sum};
use crate::{ethernet, ipv4, tcp, vlan};

/// Bytes of the longest headers: Ethernet, two tags, IPv4 or TCP with all options.
pub const HEADERS_MAX: usize = 14 + 2 * 4 + 60 + 60;

/// Flags of the first piece alone: the sender has slowed down once (RFC 3168 section 6.1.2).
const ON_THE_FIRST: u8 = tcp::CWR;
/// Flags of the last piece alone.
const ON_THE_LAST: u8 = tcp::FIN | tcp::PSH;

/// A long segment, of which some pieces have been written.
#[derive(Clone, Debug)]
pub struct Cut {
    headers: [u8; HEADERS_MAX],
    l3_offset: usize,
    l4_offset: usize,
    headers_bytes: usize,
    is_ipv6: bool,
    /// Of the whole segment.
    payload_bytes: usize,
    /// Of each piece but the last.
    piece_bytes: usize,
    /// How much of it has been written.
    done: usize,
    /// In how many pieces.
    pieces: u16,
}

impl Cut {
    /// The segment of `frame_bytes` whose first bytes, all headers among them, are `head`, to be
    /// cut into packets of at most `mtu` bytes from their IP header on.
    ///
    /// `None`: it is no TCP segment with payload, begins or resets a connection, says another
    /// length than it has, is a fragment, has extension headers or a wrong IPv4 header checksum, or
    /// its headers alone fill a packet.
    pub fn new(head: &[u8], frame_bytes: usize, mtu: usize) -> Option<Self> {
        let network = vlan::network(head)?;
        let l3_offset = usize::from(network.offset);
        let packet_bytes = frame_bytes.checked_sub(l3_offset)?;
        let packet = head.get(l3_offset..)?;
        let (is_ipv6, l3_bytes) = match network.ether_type {
            ethernet::IPV4 => (false, ipv4_header(packet, packet_bytes)?),
            ethernet::IPV6 => (true, ipv6_header(packet, packet_bytes)?),
            _ => return None,
        };
        let l4_offset = l3_offset + l3_bytes;
        let header = tcp::Header::parse(head.get(l4_offset..)?).ok()?;
        let headers_bytes = l4_offset + usize::from(header.header_bytes);
        let payload_bytes = frame_bytes.checked_sub(headers_bytes).filter(|&bytes| bytes > 0)?;
        let room = mtu.checked_sub(headers_bytes - l3_offset).filter(|&bytes| bytes > 0)?;
        if header.flags & (tcp::SYN | tcp::RST) != 0 {
            return None;
        }
        let mut headers = [0; HEADERS_MAX];
        headers.get_mut(..headers_bytes)?.copy_from_slice(head.get(..headers_bytes)?);
        let piece_bytes = room.min(payload_bytes);
        Some(Self {
            headers,
            l3_offset,
            l4_offset,
            headers_bytes,
            is_ipv6,
            payload_bytes,
            piece_bytes,
            done: 0,
            pieces: 0,
        })
    }

    /// Where the payload begins in the whole segment, and in each piece.
    pub fn payload_offset(&self) -> usize {
        self.headers_bytes
    }

    /// Whether its checksum is right, or was left open by a kernel of this host, so that the field
    /// holds the sum of the pseudo-header alone. `payload` sums the payload, and is asked for in
    /// the first case only.
    pub fn is_right(&self, payload: impl FnOnce() -> Sum) -> bool {
        let segment = self.headers.get(self.l4_offset..self.headers_bytes).unwrap_or_default();
        let Some(pseudo) = self.pseudo(segment.len() + self.payload_bytes) else { return false };
        be16(segment, 16) == Some(pseudo.fold()) || {
            // The header is of whole words, so sums of both parts add up.
            let headers = pseudo.bytes(segment).fold();
            Sum::ZERO.word(headers).word(payload().fold()).fold() == 0xffff
        }
    }

    /// Bytes of payload that the next piece has; `None`: all have been written.
    pub fn next_bytes(&self) -> Option<usize> {
        let rest = self.payload_bytes - self.done;
        (rest > 0).then(|| rest.min(self.piece_bytes))
    }

    /// Writes the headers of the next piece into `frame`, which is as long as the piece and has
    /// its payload at [`Self::payload_offset`] already, with all checksums. False: it is not as
    /// long as that.
    #[must_use]
    pub fn write(&mut self, frame: &mut [u8]) -> bool {
        let Some(bytes) = self.next_bytes() else { return false };
        if frame.len() != self.headers_bytes + bytes {
            return false;
        }
        let headers = self.headers.get(..self.headers_bytes).unwrap_or_default();
        frame.get_mut(..headers.len()).unwrap_or_default().copy_from_slice(headers);
        let packet = frame.get_mut(self.l3_offset..).unwrap_or_default();
        self.write_network(packet);
        let is_last = self.done + bytes == self.payload_bytes;
        let segment = frame.get_mut(self.l4_offset..).unwrap_or_default();
        self.write_transport(segment, is_last);
        self.done += bytes;
        self.pieces = self.pieces.wrapping_add(1);
        true
    }

    /// Lengths, and in IPv4 what tells packets apart (RFC 6864) and the header's checksum.
    fn write_network(&self, packet: &mut [u8]) {
        let l3_bytes = self.l4_offset - self.l3_offset;
        if self.is_ipv6 {
            set(packet, 4, bytes_of(packet.len() - l3_bytes));
            return;
        }
        let identification = be16(packet, 4).unwrap_or(0).wrapping_add(self.pieces);
        set(packet, 2, bytes_of(packet.len()));
        set(packet, 4, identification.to_be_bytes());
        set(packet, 10, [0, 0]);
        let sum = checksum::of(packet.get(..l3_bytes).unwrap_or_default());
        set(packet, 10, sum.to_be_bytes());
    }

    fn write_transport(&self, segment: &mut [u8], is_last: bool) {
        let Ok(header) = tcp::Header::parse(segment) else { return };
        let mut flags = header.flags;
        if self.done > 0 {
            flags &= !ON_THE_FIRST;
        }
        if !is_last {
            flags &= !ON_THE_LAST;
        }
        // The urgent byte lies so far behind the first number (RFC 6093), or has gone before.
        let urgent = usize::from(header.urgent).saturating_sub(self.done);
        if urgent == 0 {
            flags &= !tcp::URG;
        }
        // No segment is longer than an IP packet.
        let done = u32::try_from(self.done).unwrap_or(0);
        set(segment, 4, header.sequence.wrapping_add(done).to_be_bytes());
        set(segment, 13, [flags]);
        set(segment, 16, [0, 0]);
        set(segment, 18, bytes_of(urgent));
        let pseudo = self.pseudo(segment.len()).unwrap_or_default();
        set(segment, 16, pseudo.bytes(segment).checksum().to_be_bytes());
    }

    /// The sum of what stands before a segment of `bytes`.
    fn pseudo(&self, bytes: usize) -> Option<Sum> {
        let packet = self.headers.get(self.l3_offset..)?;
        let bytes = u16::try_from(bytes).ok()?;
        let addresses = if self.is_ipv6 { packet.get(8..40)? } else { packet.get(12..20)? };
        Some(Sum::ZERO.bytes(addresses).word(u16::from(ipv4::TCP)).word(bytes))
    }
}

/// Bytes of the IPv4 header of a packet of `packet_bytes` that can be cut.
fn ipv4_header(packet: &[u8], packet_bytes: usize) -> Option<usize> {
    /// More fragments, or an offset.
    const FRAGMENT: u16 = 0x3fff;
    let first = *packet.first()?;
    let bytes = usize::from(first & 15) * 4;
    let header = packet.get(..bytes).filter(|_| first >> 4 == 4 && bytes >= 20)?;
    let is_whole = be16(header, 2) == u16::try_from(packet_bytes).ok();
    let is_plain = is_whole && be16(header, 6)? & FRAGMENT == 0 && *header.get(9)? == ipv4::TCP;
    (is_plain && Sum::ZERO.bytes(header).fold() == 0xffff).then_some(bytes)
}

/// Bytes of the IPv6 header of a packet of `packet_bytes` that can be cut.
fn ipv6_header(packet: &[u8], packet_bytes: usize) -> Option<usize> {
    const BYTES: usize = 40;
    let header =
        packet.get(..BYTES).filter(|header| header.first().is_some_and(|b| b >> 4 == 6))?;
    let is_whole = be16(header, 4) == u16::try_from(packet_bytes.checked_sub(BYTES)?).ok();
    (is_whole && *header.get(6)? == ipv4::TCP).then_some(BYTES)
}

/// Writes into headers that [`Cut::new`] has found there.
fn set<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    let is_there = put(bytes, at, value);
    debug_assert!(is_there, "{at} is within the headers");
}

/// A length that an IP header holds: it is part of one that did.
fn bytes_of(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests;
