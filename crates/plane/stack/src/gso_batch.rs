//! Segments of one flow that follow on each other, joined into a long one that the port cuts again.
//!
//! Everything below the port then pays once for the whole GSO batch: one buffer, one way through
//! the kernel. A GSO batch is what the engine has said anyway, byte for byte: the same numbers,
//! flags and options, only the headers in between are left out, and whoever cuts writes them again.

use arrayvec::ArrayVec;
use base::{NO_FRAGMENT, PortId, TxChecksum};
use port::xdp::PIECES_MAX;
use shm::Frame;
use tcp::{IpFields, OptionBytes, Segment, Seq};
use wire::{FlowKey, tcp as header};

use datapath::job::Outlet;

/// Bytes of an IP packet, at most; and a little less, for the headers before it.
const BYTES_MAX: usize = 65_000;

/// Shorter segments are not worth joining: they end a flight.
const PAYLOAD_MIN: usize = 512;

/// Flags that only the last segment of a GSO batch may have.
const AT_THE_END: u8 = header::FIN | header::PSH;

/// A GSO batch that may become longer.
#[derive(Debug)]
pub(crate) struct GsoBatch {
    frames: ArrayVec<Frame, PIECES_MAX>,
    facts: Facts,
}

/// What the next segment must have in common with those before it.
#[derive(Debug)]
struct Facts {
    key: FlowKey,
    route: u32,
    port: PortId,
    next: Seq,
    acknowledgement: Seq,
    window: u16,
    flags: u8,
    ecn: u8,
    ip: IpFields,
    options: OptionBytes,
    /// Payload of every segment but the last.
    segment_bytes: usize,
    /// Payload of all.
    payload_bytes: usize,
    /// Bytes of the first frame before the segment's header.
    l4: usize,
}

impl GsoBatch {
    /// Begins with a segment that was pressed into `frame`, unless nothing may follow it: then the
    /// frame comes back.
    pub(crate) fn begin(segment: &Segment<'_>, frame: Frame, l4: usize) -> Result<Self, Frame> {
        let payload_bytes = segment.payload_bytes();
        let odd = !(header::ACK) & segment.flags;
        if payload_bytes < PAYLOAD_MIN || odd != 0 || segment.urgent != 0 {
            return Err(frame);
        }
        let facts = Facts {
            key: segment.key,
            route: segment.route,
            port: frame.meta().port,
            next: segment.sequence + payload_bytes as u32,
            acknowledgement: segment.acknowledgement,
            window: segment.window,
            flags: segment.flags,
            ecn: segment.ecn,
            ip: segment.ip,
            options: segment.options,
            segment_bytes: payload_bytes,
            payload_bytes,
            l4,
        };
        Ok(Self { frames: ArrayVec::from_iter([frame]), facts })
    }

    /// Frames of it so far.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether the segment can be its next.
    pub(crate) fn takes(&self, segment: &Segment<'_>) -> bool {
        let facts = &self.facts;
        let bytes = segment.payload_bytes();
        segment.sequence == facts.next
            && segment.key == facts.key
            && segment.flags & !AT_THE_END == facts.flags
            && segment.acknowledgement == facts.acknowledgement
            && segment.window == facts.window
            && segment.urgent == 0
            && segment.ecn == facts.ecn
            && segment.ip == facts.ip
            && segment.route == facts.route
            && segment.options.as_slice() == facts.options.as_slice()
            && (1..=facts.segment_bytes).contains(&bytes)
            && facts.payload_bytes + bytes <= BYTES_MAX
    }

    /// Appends the segment; `spares` gives frames. False: there are not enough frames, and nothing
    /// has changed.
    pub(crate) fn push(&mut self, segment: &Segment<'_>, spares: &mut Vec<Frame>) -> bool {
        let bytes = segment.payload_bytes();
        let here = self.frames.last().map_or(0, |frame| frame.room() - frame.len());
        let more = bytes.saturating_sub(here);
        let per_frame = spares.last().map_or(1, Frame::room).max(1);
        let needed = more.div_ceil(per_frame);
        if needed > spares.len() || self.frames.len() + needed > PIECES_MAX {
            return false;
        }
        for mut piece in segment.payload {
            while !piece.is_empty() {
                let is_full = self.frames.last().is_none_or(|frame| frame.room() == frame.len());
                if is_full && let Some(mut frame) = spares.pop() {
                    let is_emptied = frame.set_len(0);
                    debug_assert!(is_emptied, "every frame can be empty");
                    // A piece alone is no packet: a port that meets one refuses it for its wish to
                    // be cut without a checksum to complete.
                    let meta = frame.meta_mut();
                    (meta.port, meta.next_fragment) = (self.facts.port, NO_FRAGMENT);
                    meta.tx_segment_bytes = self.facts.segment_bytes as u16;
                    meta.tx_checksum = TxChecksum::Complete;
                    self.frames.push(frame);
                }
                let Some(frame) = self.frames.last_mut() else { return false };
                let at = frame.len();
                let run = piece.len().min(frame.room() - at);
                let (now, later) = piece.split_at(run);
                if run == 0 || !frame.set_len(at + run) {
                    return false;
                }
                now.copy_out(&mut frame.bytes_mut()[at..]);
                piece = later;
            }
        }
        let facts = &mut self.facts;
        facts.next += bytes as u32;
        facts.payload_bytes += bytes;
        facts.flags |= segment.flags;
        true
    }

    /// Whether nothing may follow: a shorter segment, or one with a flag of the end, was the last.
    pub(crate) fn has_ended(&self) -> bool {
        let facts = &self.facts;
        facts.flags & AT_THE_END != 0 || !facts.payload_bytes.is_multiple_of(facts.segment_bytes)
    }

    /// Sends it. There is room for its frames.
    pub(crate) fn leave(mut self, outlet: &mut Outlet<'_>) {
        let facts = &self.facts;
        if facts.payload_bytes > facts.segment_bytes
            && let Some(head) = self.frames.first_mut()
        {
            lengthen(head, facts);
        }
        // Each names the one behind it.
        let offsets: ArrayVec<u32, PIECES_MAX> =
            self.frames.iter().skip(1).map(|frame| frame.desc().offset).collect();
        for (frame, next) in self.frames.iter_mut().zip(offsets) {
            frame.meta_mut().next_fragment = next;
        }
        for frame in self.frames {
            outlet.send(frame);
        }
    }
}

/// Writes into the headers what the whole GSO batch's are: lengths, flags, the sums that depend on
/// them.
fn lengthen(head: &mut Frame, facts: &Facts) {
    let more = (facts.payload_bytes - facts.segment_bytes) as u16;
    let meta = head.meta_mut();
    meta.tx_segment_bytes = facts.segment_bytes as u16;
    let l3 = usize::from(meta.l3_offset);
    let bytes = head.bytes_mut();
    let Some((ip, tcp)) = bytes.split_at_mut_checked(facts.l4) else { return };
    if let Some(flags) = tcp.get_mut(13) {
        *flags = facts.flags;
    }
    // The sum of the pseudo header holds the length.
    if let Some([high, low]) = tcp.get_mut(16..18) {
        let sum = u32::from(u16::from_be_bytes([*high, *low])) + u32::from(more);
        [*high, *low] = ((sum + (sum >> 16)) as u16).to_be_bytes();
    }
    let Some(ip) = ip.get_mut(l3..) else { return };
    let (at, is_ipv4) = if ip.len() == 20 { (2, true) } else { (4, false) };
    if let Some([high, low]) = ip.get_mut(at..at + 2) {
        [*high, *low] = (u16::from_be_bytes([*high, *low]) + more).to_be_bytes();
    }
    if is_ipv4 {
        ip[10..12].fill(0);
        let sum = wire::checksum::of(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
