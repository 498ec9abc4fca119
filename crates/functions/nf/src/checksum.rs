//! The checksum that a sender on this host left open.
//!
//! A kernel peer on a veth sends TCP and UDP with only the sum of the pseudo-header in the checksum
//! field, and says so nowhere that a port could read ([`ChecksumState::Partial`]). Whoever forwards
//! such a packet asks the port that it leaves by to complete it.

use base::{ChecksumState, TxChecksum};
use shm::Frame;
use wire::checksum::Sum;
use wire::{FlowKey, Outcome, Protocol, classify};

/// Asks for the checksum of `frame` to be completed as it leaves, if its sender left it open. Comes
/// before the packet is changed in any way that its pseudo-header covers.
///
/// A complete checksum that looks like an open one (one in 65,535) is computed again, which changes
/// nothing.
#[inline]
pub(crate) fn complete_if_open(frame: &mut Frame) {
    if frame.meta().checksum == ChecksumState::Partial {
        complete_if_partial(frame);
    }
}

/// Completes a checksum that was left open, or to whoever transmits the packet, now: once its bytes
/// are encrypted or in several frames, nobody can any more. So does whoever changes what a checksum
/// covers by its own arithmetic, before that.
#[inline]
pub fn complete_here(frame: &mut Frame) {
    complete_if_open(frame);
    let meta = *frame.meta();
    if meta.tx_checksum == TxChecksum::Complete {
        return;
    }
    let meta_mut = frame.meta_mut();
    (meta_mut.tx_checksum, meta_mut.checksum) = (TxChecksum::Complete, ChecksumState::Unknown);
    let start = usize::from(meta.tx_checksum_start);
    let at = usize::from(meta.tx_checksum_offset);
    if let Some(segment) = frame.bytes_mut().get_mut(start..)
        && segment.len() >= at + 2
    {
        // The field holds the sum of the pseudo-header. Zero would mean to UDP that there is none.
        let sum = Sum::ZERO.bytes(segment).udp_checksum();
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

fn complete_if_partial(frame: &mut Frame) {
    // Fragments are no flow, and never come with an open checksum: it covers all of them.
    let Outcome::Flow(flow) = classify(frame.bytes()) else { return };
    let header_bytes = flow.payload_offset - flow.l4_offset;
    let offset = match flow.key.protocol() {
        Protocol::Udp => 6,
        Protocol::Tcp => 16,
    };
    let bytes = header_bytes.saturating_add(flow.payload_len);
    let place = usize::from(flow.l4_offset + offset);
    let field = frame.bytes().get(place..).and_then(|rest| rest.first_chunk().copied());
    if field.map(u16::from_be_bytes) != Some(pseudo_sum(&flow.key, bytes)) {
        return;
    }
    // The port sums to the end of the frame: what lies behind the packet must be gone by then.
    let end = usize::from(flow.payload_offset) + usize::from(flow.payload_len);
    if frame.set_len(end) {
        let meta = frame.meta_mut();
        meta.tx_checksum = TxChecksum::Partial;
        (meta.tx_checksum_start, meta.tx_checksum_offset) = (flow.l4_offset, offset);
    }
}

fn pseudo_sum(key: &FlowKey, bytes: u16) -> u16 {
    Sum::ZERO.pseudo_of(key, bytes).fold()
}

#[cfg(test)]
mod tests;
