//! A packet turned, where it stands, into the error message about it (RFC 792, RFC 1812 section
//! 4.3, RFC 4443).

use std::net::{Ipv4Addr, Ipv6Addr};

use base::{ChecksumState, TxChecksum};
use shm::Frame;
use wire::checksum::{self, Sum};
use wire::{icmp, ipv4, ipv6};

use crate::headers::{fixed4, follow};

/// What is said about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// It passed as many routers as it might.
    Expired,
    /// It is longer than its next link takes.
    TooBig {
        /// Bytes of the longest packet that it takes.
        mtu: u32,
    },
    /// No route leads there.
    NoRoute,
    /// The host there does not answer on its link.
    HostUnreachable,
    /// Somebody forbade it.
    Prohibited,
    /// It comes from an address that nobody beyond that link knows (IPv6).
    BeyondScope,
    /// This byte of its header makes no sense (IPv4).
    Parameter {
        /// Counted from the start of the header.
        at: u8,
    },
}

/// Whom a message comes from, and by which link address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) mac: [u8; 6],
    pub(crate) four: Option<Ipv4Addr>,
    pub(crate) six: Option<Ipv6Addr>,
}

/// Bytes of the link header; the packet stands behind it.
const LINK: usize = 14;
const HOP_LIMIT: u8 = 64;
/// RFC 1812 section 4.3.2.3: as much of the packet as fits into 576 bytes.
const IPV4_MAX: usize = 576;
/// RFC 4443 section 2.4 c: as much as fits into the least MTU of IPv6.
const IPV6_MAX: usize = 1280;
/// RFC 1812 section 4.3.2.5: internetwork control.
const PRECEDENCE: u8 = 0xc0;
const TYPE_OF_SERVICE: u8 = 0x1e;

impl Complaint {
    const fn ipv4(self) -> (u8, u8, u32) {
        match self {
            Self::Expired => (11, 0, 0),
            Self::TooBig { mtu } => (3, 4, if mtu > 0xffff { 0xffff } else { mtu }),
            Self::NoRoute => (3, 0, 0),
            Self::HostUnreachable | Self::BeyondScope => (3, 1, 0),
            Self::Prohibited => (3, 13, 0),
            Self::Parameter { at } => (12, 0, (at as u32) << 24),
        }
    }

    const fn ipv6(self) -> (u8, u8, u32) {
        match self {
            Self::Expired => (3, 0, 0),
            Self::TooBig { mtu } => (2, 0, mtu),
            Self::NoRoute => (1, 0, 0),
            Self::HostUnreachable => (1, 3, 0),
            Self::Prohibited => (1, 1, 0),
            Self::BeyondScope => (1, 2, 0),
            Self::Parameter { at } => (4, 0, at as u32),
        }
    }
}

/// Whether there may be a message about the packet in `frame`, which stands behind an untagged link
/// header and goes from one host to another. There is none about an error message, and none about
/// any but the first fragment of IPv4 (RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 e).
pub(crate) fn may_answer(frame: &[u8]) -> bool {
    let Some(packet) = frame.get(LINK..) else { return false };
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => may_answer4(packet).unwrap_or(false),
        Some(6) => may_answer6(packet).unwrap_or(false),
        _ => false,
    }
}

fn may_answer4(packet: &[u8]) -> Option<bool> {
    const OFFSET: u16 = 0x1fff;
    let header = fixed4(packet)?;
    if u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & OFFSET != 0 {
        return Some(false);
    }
    if header.protocol != ipv4::ICMP {
        return Some(true);
    }
    // Cut off before its type, it may be an error message.
    packet.get(usize::from(header.header_bytes)).map(|kind| !icmp::is_error_ipv4(*kind))
}

fn may_answer6(packet: &[u8]) -> Option<bool> {
    const REDIRECT: u8 = 137;
    let header = ipv6::Header::parse(packet).ok()?;
    let payload = packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes())?;
    // A chain that nobody follows to its end may end in an error message.
    let last = follow(payload, header.next_header)?;
    if last.protocol != ipv6::ICMPV6 || matches!(last.fragment, Some((1.., _))) {
        return Some(true);
    }
    let kind = *last.payload.first()?;
    Some(!icmp::is_error_ipv6(kind) && kind != REDIRECT)
}

/// Turns the packet in `frame` into the message to whoever sent it, for the link that it came from.
/// `frame` is as [`may_answer`] wants it. False, and the frame as it was, when the sender has no
/// address of that version, or there is no room.
#[must_use]
pub(crate) fn answer(frame: &mut Frame, complaint: Complaint, sender: &Sender) -> bool {
    match frame.bytes().get(LINK).map(|byte| byte >> 4) {
        Some(4) => answer4(frame, complaint, sender).is_some(),
        Some(6) => answer6(frame, complaint, sender).is_some(),
        _ => false,
    }
}

fn answer4(frame: &mut Frame, complaint: Complaint, sender: &Sender) -> Option<()> {
    const HEADERS: usize = 28;
    let header = fixed4(frame.bytes().get(LINK..)?)?;
    let [s0, s1, s2, s3] = sender.four?.octets();
    let [d0, d1, d2, d3] = header.source;
    let service = frame.bytes().get(LINK + 1)? & TYPE_OF_SERVICE | PRECEDENCE;
    let quoted = usize::from(header.total_bytes).min(IPV4_MAX - HEADERS);
    let message = make_room(frame, quoted, HEADERS, sender)?;
    let [t0, t1] = u16::try_from(message.len()).ok()?.to_be_bytes();
    let (kind, code, word) = complaint.ipv4();
    // Not to be fragmented, so that the identification may be zero (RFC 6864 section 4).
    let fixed = [0x45, service, t0, t1, 0, 0, 0x40, 0, HOP_LIMIT, ipv4::ICMP, 0, 0];
    let (head, message) = message.split_first_chunk_mut::<20>()?;
    head[..12].copy_from_slice(&fixed);
    head[12..].copy_from_slice(&[s0, s1, s2, s3, d0, d1, d2, d3]);
    let sum = checksum::of(head);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    write_message(message, kind, code, word, Sum::ZERO)
}

fn answer6(frame: &mut Frame, complaint: Complaint, sender: &Sender) -> Option<()> {
    const HEADERS: usize = 48;
    let header = ipv6::Header::parse(frame.bytes().get(LINK..)?).ok()?;
    let source = sender.six?.octets();
    let quoted = header.total_bytes().min(IPV6_MAX - HEADERS);
    let message = make_room(frame, quoted, HEADERS, sender)?;
    let (head, message) = message.split_first_chunk_mut::<40>()?;
    let length = u16::try_from(message.len()).ok()?;
    let [l0, l1] = length.to_be_bytes();
    let (kind, code, word) = complaint.ipv6();
    head[..8].copy_from_slice(&[0x60, 0, 0, 0, l0, l1, ipv6::ICMPV6, HOP_LIMIT]);
    head[8..24].copy_from_slice(&source);
    head[24..].copy_from_slice(&header.source);
    let pseudo = Sum::ZERO.pseudo_ipv6(source, header.source, ipv6::ICMPV6, length);
    write_message(message, kind, code, word, pseudo)
}

/// Moves the first `quoted` bytes of the packet back by `headers` bytes and turns the link header
/// around. The message: headers to be written, and the quoted bytes.
fn make_room<'a>(
    frame: &'a mut Frame,
    quoted: usize,
    headers: usize,
    sender: &Sender,
) -> Option<&'a mut [u8]> {
    if !frame.set_len(LINK + headers + quoted) {
        return None;
    }
    let meta = frame.meta_mut();
    (meta.checksum, meta.tx_checksum) = (ChecksumState::Unknown, TxChecksum::Complete);
    let bytes = frame.bytes_mut();
    bytes.copy_within(LINK..LINK + quoted, LINK + headers);
    bytes.copy_within(6..12, 0);
    bytes[6..12].copy_from_slice(&sender.mac);
    bytes.get_mut(LINK..)
}

/// Writes the ICMP header in front of what `message` quotes.
fn write_message(message: &mut [u8], kind: u8, code: u8, word: u32, pseudo: Sum) -> Option<()> {
    let [w0, w1, w2, w3] = word.to_be_bytes();
    *message.first_chunk_mut()? = [kind, code, 0, 0, w0, w1, w2, w3];
    let sum = pseudo.bytes(message).checksum();
    *message.get_mut(2..)?.first_chunk_mut()? = sum.to_be_bytes();
    Some(())
}

#[cfg(test)]
mod tests;
