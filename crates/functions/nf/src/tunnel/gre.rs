//! The header of GRE (RFC 2784, RFC 2890).

use wire::checksum::Sum;
use wire::ethernet;

/// Bytes of the longest header that is written: with a key.
pub(super) const BYTES_MAX: usize = 8;

const CHECKSUM: u8 = 0x80;
const ROUTING: u8 = 0x40;
const KEY: u8 = 0x20;
const SEQUENCE: u8 = 0x10;

/// Bytes of a header with or without a key.
pub(super) const fn bytes(key: Option<u32>) -> usize {
    if key.is_some() { 8 } else { 4 }
}

/// Writes a header to the start of `out`.
#[inline]
pub(super) fn write(out: &mut [u8], key: Option<u32>, is_ipv4: bool) {
    let kind = if is_ipv4 { ethernet::IPV4 } else { ethernet::IPV6 };
    out[..2].copy_from_slice(&[if key.is_some() { KEY } else { 0 }, 0]);
    out[2..4].copy_from_slice(&kind.to_be_bytes());
    if let Some(key) = key {
        out[4..8].copy_from_slice(&key.to_be_bytes());
    }
}

/// Bytes of the header at the start of a payload, if it is right and has `key`, and whether IPv4 is
/// behind it.
#[inline]
pub(super) fn read(payload: &[u8], key: Option<u32>) -> Option<(usize, bool)> {
    let &[flags, version, k0, k1, ..] = payload else { return None };
    // Bits that nobody knows, and PPTP's version 1 (RFC 2637).
    if flags & (ROUTING | 0x0f) != 0 || version != 0 || (flags & KEY != 0) != key.is_some() {
        return None;
    }
    let mut at = 4;
    if flags & CHECKSUM != 0 {
        if Sum::ZERO.bytes(payload).fold() != 0xffff {
            return None;
        }
        at += 4;
    }
    if let Some(key) = key {
        let found: &[u8; 4] = payload.get(at..)?.first_chunk()?;
        if *found != key.to_be_bytes() {
            return None;
        }
        at += 4;
    }
    // RFC 2890 section 2.2: who does not look at numbers may pass them over.
    at += if flags & SEQUENCE != 0 { 4 } else { 0 };
    match u16::from_be_bytes([k0, k1]) {
        ethernet::IPV4 => Some((at, true)),
        ethernet::IPV6 => Some((at, false)),
        _ => None,
    }
}
