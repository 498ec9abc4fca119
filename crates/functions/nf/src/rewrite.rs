//! Other ends written into IPv4 packets where they stand, with all checksums that cover them.

use shm::Frame;
use wire::checksum::{self, Sum};
use wire::ipv4;

use crate::checksum::complete_if_open;
use crate::track::hash_of;

/// Bytes of the link header; the packet stands behind it.
const LINK: usize = 14;
/// Bytes of an ICMP error before the packet that it quotes.
const ICMP_HEADER: usize = 8;

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

/// An end: of an ICMP query the port is its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) address: u32,
    /// None: it stays, or is in another fragment.
    pub(crate) port: Option<u16>,
}

/// Writes an end of the packet in `frame`, an untagged one with a header that was found well. A
/// checksum that its sender left open stays open, and is that of the new packet when it is
/// completed.
#[inline]
pub(crate) fn write_end(frame: &mut Frame, side: Side, end: End) {
    complete_if_open(frame);
    let is_open = frame.meta().tx_checksum == base::TxChecksum::Partial;
    if let Some(packet) = frame.bytes_mut().get_mut(LINK..) {
        let _ = write(packet, side, end, is_open);
    }
}

/// Whether nobody has cut the IPv4 packet in `frame` and nobody may (RFC 6864 section 4): its
/// identification says nothing.
#[inline]
pub(crate) fn is_atomic(frame: &Frame) -> bool {
    const RESERVED: u8 = 0x80;
    const DO_NOT_CUT: u8 = 0x40;
    let flags = frame.bytes().get(LINK + 6..).and_then(|at| at.first_chunk::<2>());
    flags.is_some_and(|flags| [flags[0] & !RESERVED, flags[1]] == [DO_NOT_CUT, 0])
}

/// Writes the identification of the IPv4 packet in `frame`.
#[inline]
pub(crate) fn write_identification(frame: &mut Frame, identification: u16) {
    let Some(packet) = frame.bytes_mut().get_mut(LINK..) else { return };
    let change = put(packet, 4, identification);
    let sum = packet.get_mut(10..).and_then(|at| at.first_chunk_mut());
    if let (Some(change), Some(sum)) = (change, sum) {
        change.apply(sum, false);
    }
}

/// Identifications of packets that leave from addresses which several hosts share: of two ends each
/// comes again only after 65,536 packets (RFC 6864 section 5.3).
#[derive(Debug)]
pub(crate) struct Identifications {
    last: Box<[u16]>,
    seed: u64,
}

impl Identifications {
    /// Counts: pairs of ends that meet in one share it, which no two packets of a pair notice.
    const PLACES: usize = 4096;

    pub(crate) fn new(seed: u64) -> Self {
        let last = (0..Self::PLACES as u64).map(|place| hash_of(seed, &[place]) as u16);
        Self { last: last.collect(), seed }
    }

    #[inline]
    pub(crate) fn next(&mut self, source: u32, destination: u128) -> u16 {
        let words = [source.into(), destination as u64];
        let last = &mut self.last[hash_of(self.seed, &words) as usize % Self::PLACES];
        *last = last.wrapping_add(1);
        *last
    }
}

/// Whether the checksum of the ICMP message in `frame` is right; the packet is whole.
pub(crate) fn is_icmp_right(frame: &[u8]) -> bool {
    message(frame.len(), frame.get(LINK..).unwrap_or_default())
        .and_then(|range| frame.get(range))
        .is_some_and(|message| Sum::ZERO.bytes(message).fold() == 0xffff)
}

/// Writes an end of the packet that the ICMP error in `frame` quotes. The error's own checksum,
/// which was right, is right again.
pub(crate) fn write_quoted(frame: &mut Frame, side: Side, end: End) {
    let bytes = frame.len();
    let Some(range) = message(bytes, frame.bytes().get(LINK..).unwrap_or_default()) else { return };
    let Some(message) = frame.bytes_mut().get_mut(range) else { return };
    let Some((head, quoted)) = message.split_at_mut_checked(ICMP_HEADER) else { return };
    let _ = write(quoted, side, end, false);
    head[2..4].fill(0);
    let sum = Sum::ZERO.bytes(message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Where the payload of the packet is, in a frame of `frame_bytes` bytes.
fn message(frame_bytes: usize, packet: &[u8]) -> Option<std::ops::Range<usize>> {
    let header = ipv4::Header::parse(packet).ok()?;
    let end = (LINK + usize::from(header.total_bytes)).min(frame_bytes);
    let start = LINK + usize::from(header.header_bytes);
    (start + ICMP_HEADER <= end).then_some(start..end)
}

/// What a change of a word does to the checksums of a packet.
#[derive(Clone, Copy)]
struct Change {
    old: u16,
    new: u16,
}

impl Change {
    /// Applies it to a checksum field. An open one holds the sum itself and not its complement.
    fn apply(self, field: &mut [u8; 2], is_open: bool) {
        let sum = u16::from_be_bytes(*field);
        let sum = match is_open {
            true => !checksum::update(!sum, self.old, self.new),
            false => checksum::update(sum, self.old, self.new),
        };
        *field = sum.to_be_bytes();
    }
}

/// Writes a word, and says what changed.
fn put(bytes: &mut [u8], at: usize, new: u16) -> Option<Change> {
    let place: &mut [u8; 2] = bytes.get_mut(at..)?.first_chunk_mut()?;
    let old = u16::from_be_bytes(*place);
    *place = new.to_be_bytes();
    Some(Change { old, new })
}

fn write(packet: &mut [u8], side: Side, end: End, is_open: bool) -> Option<()> {
    const OFFSET: u16 = 0x1fff;
    let head: &[u8; 20] = packet.first_chunk()?;
    let header_bytes = usize::from(head[0] & 0x0f) * 4;
    let offset = u16::from_be_bytes([head[6], head[7]]) & OFFSET;
    let protocol = head[9];
    let (address_at, port_at) = match side {
        Side::Source => (12, 0),
        Side::Destination => (16, 2),
    };
    let [a, b, c, d] = end.address.to_be_bytes();
    let words = [
        put(packet, address_at, u16::from_be_bytes([a, b]))?,
        put(packet, address_at + 2, u16::from_be_bytes([c, d]))?,
    ];
    let field = packet.get_mut(10..)?.first_chunk_mut()?;
    words.iter().for_each(|change| change.apply(field, false));
    if offset != 0 {
        return Some(());
    }
    let segment = packet.get_mut(header_bytes..)?;
    let (port_at, sum_at) = match protocol {
        ipv4::TCP => (port_at, 16),
        ipv4::UDP => (port_at, 6),
        ipv4::ICMP => (4, 2),
        _ => return Some(()),
    };
    let change = match end.port {
        Some(port) => Some(put(segment, port_at, port)?),
        None => None,
    };
    // What is quoted may be cut off before its checksum.
    let field: &mut [u8; 2] = segment.get_mut(sum_at..)?.first_chunk_mut()?;
    if protocol == ipv4::UDP && *field == [0, 0] && !is_open {
        return Some(());
    }
    if protocol != ipv4::ICMP {
        words.iter().for_each(|change| change.apply(field, is_open));
    }
    // An open checksum covers the ports once it is completed.
    if let Some(change) = change.filter(|_| !is_open) {
        change.apply(field, false);
    }
    if protocol == ipv4::UDP && *field == [0, 0] && !is_open {
        *field = [0xff, 0xff];
    }
    Some(())
}

#[cfg(test)]
mod tests;
