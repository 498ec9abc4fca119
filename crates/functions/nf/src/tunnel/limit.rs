//! The option by which others limit tunnels in tunnels (RFC 2473 section 4.1.1): before what a
//! tunnel of IPv6 carries there may be a header of options. Linux writes one unless told not to.

use crate::esp::packet::Packet;

/// A header of options for the destination.
const OPTIONS: u8 = 60;
/// The limit, and padding.
const LIMIT: u8 = 4;
const PAD1: u8 = 0;
const PADN: u8 = 1;

/// Bytes of such a header, at most: the limit needs eight, and nobody needs more padding.
const HEADER_BYTES_MAX: usize = 16;

/// Counts a header that holds nothing but the limit as one of the outer packet's.
#[inline]
pub(super) fn skip(packet: &mut Packet, frame: &[u8]) {
    if packet.protocol == OPTIONS && !packet.is_ipv4 {
        skip_options(packet, frame);
    }
}

#[cold]
fn skip_options(packet: &mut Packet, frame: &[u8]) {
    let start = packet.l3 + packet.header_bytes;
    let payload = frame.get(start..packet.l3 + packet.total_bytes).unwrap_or_default();
    let Some([next, eights, ..]) = payload.first_chunk::<8>() else { return };
    let bytes = (usize::from(*eights) + 1) * 8;
    let header = payload.get(..bytes).filter(|_| bytes <= HEADER_BYTES_MAX);
    if header.is_some_and(|header| holds_the_limit(&header[2..])) {
        packet.protocol = *next;
        packet.header_bytes += bytes;
    }
}

fn holds_the_limit(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        options = match (kind, rest) {
            (&PAD1, rest) => rest,
            (&(PADN | LIMIT), [bytes, rest @ ..]) if usize::from(*bytes) <= rest.len() => {
                &rest[usize::from(*bytes)..]
            }
            _ => return false,
        };
    }
    true
}
