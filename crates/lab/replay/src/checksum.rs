//! Whether a captured packet's checksum is right, not computed yet, or wrong.
//!
//! A capture made on the sending host shows packets before the NIC has finished them: the field
//! holds the sum of the pseudo-header only (Linux: CHECKSUM_PARTIAL).

use wire::checksum::{Sum, verify};
use wire::{Flow, Protocol};

/// What is known of a packet's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    /// The NIC was to compute it.
    Unfinished,
    Wrong,
}

/// Looks at the checksums of `frame`, which is whole and was classified as `flow`.
pub(crate) fn judge(frame: &[u8], flow: &Flow) -> Verdict {
    if verify(frame, flow) {
        Verdict::Right
    } else if is_unfinished(frame, flow) == Some(true) {
        Verdict::Unfinished
    } else {
        Verdict::Wrong
    }
}

#[cold]
fn is_unfinished(frame: &[u8], flow: &Flow) -> Option<bool> {
    let (l3, l4) = (usize::from(flow.l3_offset), usize::from(flow.l4_offset));
    let protocol = flow.key.protocol();
    let field = l4 + if protocol == Protocol::Udp { 6 } else { 16 };
    let len = (flow.payload_offset - flow.l4_offset).checked_add(flow.payload_len)?;
    let pseudo = if flow.key.is_ipv6() {
        let source = frame.get(l3 + 8..)?.first_chunk()?;
        let destination = frame.get(l3 + 24..)?.first_chunk()?;
        Sum::ZERO.pseudo_ipv6(*source, *destination, protocol.number(), len)
    } else {
        if Sum::ZERO.bytes(frame.get(l3..l4)?).fold() != 0xffff {
            return Some(false);
        }
        let source = frame.get(l3 + 12..)?.first_chunk()?;
        let destination = frame.get(l3 + 16..)?.first_chunk()?;
        Sum::ZERO.pseudo_ipv4(*source, *destination, protocol.number(), len)
    };
    let written = u16::from_be_bytes(*frame.get(field..)?.first_chunk()?);
    Some(pseudo.fold() == written)
}
