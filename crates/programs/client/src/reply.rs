//! Answers to received UDP packets, made where the packet stands.

use base::TxChecksum;
use shm::Frame;
use wire::reply;

use crate::worker::Verdict;

/// The UDP payload (RFC 768) of a received packet; `None` when it is no UDP packet.
pub fn payload(frame: &Frame) -> Option<&[u8]> {
    let meta = frame.meta();
    let range = reply::payload_range(frame.bytes(), meta.l3_offset, meta.l4_offset)?;
    frame.bytes().get(range)
}

/// Turns a received UDP packet around, payload and all: addresses and ports change places, both
/// checksums are computed anew (the received ones may be partial,
/// [`base::ChecksumState::Partial`]). False, and an unchanged frame, when it is no UDP packet
/// between two hosts.
#[must_use]
pub fn turn_around(frame: &mut Frame) -> bool {
    let offsets = (frame.meta().l3_offset, frame.meta().l4_offset);
    let Some(len) = reply::turn_around(frame.bytes_mut(), offsets, None) else { return false };
    frame.meta_mut().tx_checksum = TxChecksum::Complete;
    frame.set_len(usize::from(len))
}

/// Turns a received UDP packet around with another payload. False, and a frame that is good for
/// [`crate::Worker::done`] only, when it is no UDP packet between two hosts or the payload has no
/// room in the frame.
#[must_use]
pub fn turn_around_with(frame: &mut Frame, payload: &[u8]) -> bool {
    set_payload(frame, payload).is_some() && turn_around(frame)
}

/// The whole program of an echo server, for [`crate::Worker::step`].
pub fn echo(frame: &mut Frame) -> Verdict {
    if turn_around(frame) { Verdict::Send } else { Verdict::Done }
}

/// Puts another payload into a UDP packet and corrects the lengths; checksums are left to
/// [`turn_around`], which ignores those it finds.
fn set_payload(frame: &mut Frame, payload: &[u8]) -> Option<()> {
    let (l3, l4) = (usize::from(frame.meta().l3_offset), usize::from(frame.meta().l4_offset));
    // It has looked at every length: the headers lie inside.
    let old = reply::payload_range(frame.bytes(), frame.meta().l3_offset, frame.meta().l4_offset)?;
    let udp_bytes = u16::try_from(old.start - l4 + payload.len()).ok()?;
    let network_bytes = u16::try_from(old.start - l3 + payload.len()).ok()?;
    if !frame.set_len(old.start + payload.len()) {
        return None;
    }
    let bytes = frame.bytes_mut();
    let (at, length) = if bytes.get(l3)? >> 4 == 6 {
        // IPv6 counts what follows its own 40 bytes (RFC 8200 section 3).
        (l3 + 4, network_bytes.checked_sub(40)?)
    } else {
        (l3 + 2, network_bytes)
    };
    bytes.get_mut(at..at + 2)?.copy_from_slice(&length.to_be_bytes());
    bytes.get_mut(l4 + 4..l4 + 6)?.copy_from_slice(&udp_bytes.to_be_bytes());
    bytes.get_mut(old.start..)?.copy_from_slice(payload);
    Some(())
}

#[cfg(test)]
mod tests;
