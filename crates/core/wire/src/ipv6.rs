//! IPv6: the fixed header and a bounded walk over extension headers (RFC 8200).

use crate::{Malformed, NotOurs, Reject};

/// Bytes of the fixed header.
pub const HEADER_BYTES: u16 = 40;
/// Next header: ICMPv6.
pub const ICMPV6: u8 = 58;
/// Extension headers followed. RFC 8200 section 4.1 names six distinct ones, one of them twice.
pub const MAX_EXTENSIONS: usize = 8;
/// Bytes of extension headers followed: an upper bound on the work one packet can ask for, far
/// above what any host sends (RFC 8504 section 5.3 allows such limits).
pub const MAX_EXTENSION_BYTES: u16 = 512;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION_OPTIONS: u8 = 60;
const OPTION_PAD1: u8 = 0;
/// RFC 8200 section 4.2: of these two bits, "skip what you do not know" has neither.
const OPTION_MUST_BE_KNOWN: u8 = 0xc0;
/// Fragment offset and more-fragments flag. A packet with neither is whole (RFC 6946).
const FRAGMENT_MASK: u16 = 0xfff9;

/// A fixed header whose payload length fits the bytes that hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes behind the fixed header; what lies behind those is padding of the link.
    pub payload_bytes: u16,
    /// What follows the fixed header.
    pub next_header: u8,
    /// Routers it may still pass.
    pub hop_limit: u8,
    /// From whom.
    pub source: [u8; 16],
    /// To whom.
    pub destination: [u8; 16],
}

/// What stands behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Its protocol number.
    pub protocol: u8,
    /// Bytes of extension headers before it.
    pub extension_bytes: u16,
    /// Whether an authentication header signs the packet, so that nobody without the key may
    /// change it.
    pub is_signed: bool,
}

impl Header {
    /// Reads the fixed header at the start of `packet`.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let Some((fixed, behind)) = packet.split_first_chunk::<40>() else {
            return Err(Malformed::Ipv6Truncated);
        };
        let header = Self::from_fixed(fixed)?;
        if usize::from(header.payload_bytes) > behind.len() {
            return Err(Malformed::Ipv6BeyondFrame);
        }
        Ok(header)
    }

    /// Reads a header whose payload may be cut off, as error messages quote it.
    #[inline]
    pub(crate) fn from_fixed(fixed: &[u8; 40]) -> Result<Self, Malformed> {
        if fixed[0] >> 4 != 6 {
            return Err(Malformed::Ipv6Version);
        }
        let (source, destination) = fixed[8..].split_at(16);
        let address = |bytes: &[u8]| bytes.first_chunk().copied().unwrap_or_default();
        Ok(Self {
            payload_bytes: u16::from_be_bytes([fixed[4], fixed[5]]),
            next_header: fixed[6],
            hop_limit: fixed[7],
            source: address(source),
            destination: address(destination),
        })
    }

    /// Bytes of the packet: the fixed header and what it says follows.
    #[inline]
    pub fn total_bytes(&self) -> usize {
        usize::from(HEADER_BYTES) + usize::from(self.payload_bytes)
    }

    /// Checks that both addresses are of single hosts; the reason says what they are if not.
    #[inline]
    pub fn check_addresses(&self) -> Result<(), Reject> {
        if !is_host(self.destination) {
            return Err(if is_multicast(self.destination) {
                NotOurs::Multicast.into()
            } else {
                Malformed::Ipv6Destination.into()
            });
        }
        if !is_host(self.source) {
            return Err(Malformed::Ipv6Source.into());
        }
        Ok(())
    }
}

/// Whether `address` names a group (RFC 4291 section 2.7).
#[inline]
pub const fn is_multicast(address: [u8; 16]) -> bool {
    address[0] == 0xff
}

/// Whether a packet on a link may come from `address`: not from a group, `::`, `::1` (RFC 4291
/// sections 2.5.2, 2.5.3 and 2.7) or an IPv4-mapped address, which a program would take for IPv4
/// (RFC 4942 section 2.2).
#[inline]
pub const fn is_host(address: [u8; 16]) -> bool {
    const MAPPED: u128 = 0xffff;
    let number = u128::from_be_bytes(address);
    !is_multicast(address) && number > 1 && number >> 32 != MAPPED
}

/// Follows the chain that starts in `payload` (what stands behind the fixed header) with
/// `next_header`, to the first header that is no extension.
#[inline]
pub fn walk(payload: &[u8], next_header: u8) -> Result<Transport, Reject> {
    match next_header {
        NO_NEXT_HEADER => Err(NotOurs::NoNextHeader.into()),
        extension if is_extension(extension) => walk_extensions(payload, extension),
        protocol => Ok(Transport { protocol, extension_bytes: 0, is_signed: false }),
    }
}

fn walk_extensions(payload: &[u8], first_extension: u8) -> Result<Transport, Reject> {
    let mut kind = first_extension;
    let mut at = 0;
    let mut is_signed = false;
    for position in 0..MAX_EXTENSIONS {
        if kind == HOP_BY_HOP && position > 0 {
            // RFC 8200 section 4.1: only right behind the fixed header.
            return Err(Malformed::Ipv6HopByHopOrder.into());
        }
        let header = extension(kind, payload.get(usize::from(at)..).unwrap_or_default(), at)?;
        check_extension(kind, header.bytes)?;
        is_signed |= kind == AUTHENTICATION;
        at += header.length;
        kind = header.next;
        if kind == NO_NEXT_HEADER {
            return Err(NotOurs::NoNextHeader.into());
        }
        if !is_extension(kind) {
            return Ok(Transport { protocol: kind, extension_bytes: at, is_signed });
        }
    }
    Err(Malformed::Ipv6ChainTooLong.into())
}

/// One extension header: its bytes, how many they are, and the number of the next one.
struct Extension<'a> {
    bytes: &'a [u8],
    length: u16,
    next: u8,
}

/// Cuts the extension header `kind` off `rest`, which follows `before` bytes of others.
fn extension(kind: u8, rest: &[u8], before: u16) -> Result<Extension<'_>, Reject> {
    // Every extension header has at least eight bytes and starts with the next one's number.
    let Some([next, words, ..]) = rest.first_chunk::<8>() else {
        return Err(Malformed::Ipv6ExtensionTruncated.into());
    };
    let words = u16::from(*words);
    let length = match kind {
        FRAGMENT => 8,
        // RFC 4302 section 2.2: in words of four bytes, less two; three words are fixed.
        AUTHENTICATION if words < 1 => return Err(Malformed::Ipv6ExtensionLength.into()),
        AUTHENTICATION => (words + 2) * 4,
        _ => (words + 1) * 8,
    };
    if before + length > MAX_EXTENSION_BYTES {
        return Err(Malformed::Ipv6ChainTooLong.into());
    }
    match rest.get(..usize::from(length)) {
        Some(bytes) => Ok(Extension { bytes, length, next: *next }),
        None => Err(Malformed::Ipv6ExtensionTruncated.into()),
    }
}

/// Looks for what makes the packet somebody else's.
fn check_extension(kind: u8, bytes: &[u8]) -> Result<(), Reject> {
    match (kind, bytes) {
        (FRAGMENT, [_, _, high, low, ..])
            if u16::from_be_bytes([*high, *low]) & FRAGMENT_MASK != 0 =>
        {
            Err(NotOurs::Fragment.into())
        }
        // The destination is then not the last one, and not the one that the checksum covers
        // (RFC 8200 section 8.1).
        (ROUTING, [_, _, _, segments_left, ..]) if *segments_left != 0 => {
            Err(NotOurs::SourceRoute.into())
        }
        (HOP_BY_HOP | DESTINATION_OPTIONS, [_, _, options @ ..]) => check_options(options),
        _ => Ok(()),
    }
}

/// Walks the options of one extension header; every round takes at least a byte.
fn check_options(mut options: &[u8]) -> Result<(), Reject> {
    while let [kind, rest @ ..] = options {
        if *kind == OPTION_PAD1 {
            options = rest;
            continue;
        }
        // Jumbo payload, and home address (another source for the checksum), are among them.
        if kind & OPTION_MUST_BE_KNOWN != 0 {
            return Err(NotOurs::Ipv6Option.into());
        }
        let behind = rest.split_first().and_then(|(bytes, data)| data.get(usize::from(*bytes)..));
        match behind {
            Some(behind) => options = behind,
            None => return Err(Malformed::Ipv6Option.into()),
        }
    }
    Ok(())
}

#[inline]
const fn is_extension(next_header: u8) -> bool {
    matches!(next_header, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS)
}

#[cfg(test)]
mod tests;
