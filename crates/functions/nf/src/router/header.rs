//! Fields of a packet that was found well, and what a router writes.

use wire::{checksum, ipv6};

/// Bytes of the link header, which every packet stands behind.
pub(super) const LINK: usize = 14;

/// Whether an IPv4 packet must not be fragmented.
#[inline]
pub(super) fn must_stay_whole(frame: &[u8]) -> bool {
    const DO_NOT_FRAGMENT: u8 = 0x40;
    frame.get(LINK + 6).is_some_and(|flags| flags & DO_NOT_FRAGMENT != 0)
}

/// Bytes of the IP packet in a frame that was found well.
#[inline]
pub(super) fn packet_bytes(frame: &[u8], is_ipv6: bool) -> usize {
    let word = |at: usize| match frame.get(LINK + at..).and_then(|rest| rest.first_chunk()) {
        Some(word) => usize::from(u16::from_be_bytes(*word)),
        None => 0,
    };
    if is_ipv6 { usize::from(ipv6::HEADER_BYTES) + word(4) } else { word(2) }
}

/// Writes the link addresses, and lowers the hop limit, or the TTL with its checksum (RFC 1624).
#[inline]
pub(super) fn write_link_and_limit(frame: &mut [u8], to: [u8; 6], from: [u8; 6], is_ipv6: bool) {
    // Long enough for any header: it was found well.
    let Some(head) = frame.first_chunk_mut::<{ LINK + 20 }>() else { return };
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    if is_ipv6 {
        head[LINK + 7] -= 1;
        return;
    }
    let old = u16::from_be_bytes([head[LINK + 8], head[LINK + 9]]);
    head[LINK + 8] -= 1;
    let sum = u16::from_be_bytes([head[LINK + 10], head[LINK + 11]]);
    let [high, low] = checksum::update(sum, old, old - 0x0100).to_be_bytes();
    (head[LINK + 10], head[LINK + 11]) = (high, low);
}
