//! One segment of a flow: its header and options, offered to the caller, and what changes once it
//! is taken.

use base::Nanos;
use piece::ReadPiece;
use wire::tcp;

use crate::cold::Cold;
use crate::flow::{Flags, Flow, timestamp_clock};
use crate::io::{Buffers, ECT, FlowId, Output, Segment};
use crate::options::Timestamps;
use crate::reassembly::Blocks;
use crate::shared::{Shared, Turn};
use crate::{OptionBytes, Seq, urgent, window};

/// What a segment of a synchronized flow is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) sequence: Seq,
    /// Beside ACK.
    pub(crate) flags: u8,
    /// Of the send ring, from `sequence` on.
    pub(crate) bytes: u32,
    /// New data, which routers may mark.
    pub(crate) is_new: bool,
}

/// Whether there is anything for a SACK option to say.
#[inline]
pub(crate) const fn has_report(cold: &Cold) -> bool {
    cold.duplicate.0.0 != cold.duplicate.1.0 || !cold.reassembly.is_empty()
}

/// The ranges to be told to the peer.
pub(crate) fn sack_blocks(flow: &Flow, cold: &Cold, shared: &Shared) -> Blocks {
    let mut blocks = Blocks::default();
    if flow.flags.has(Flags::SACK) && has_report(cold) {
        if cold.duplicate.0 != cold.duplicate.1 {
            blocks.push(cold.duplicate);
        }
        cold.reassembly.report(&shared.ranges, &mut blocks);
    }
    blocks
}

/// The timestamp that a segment leaving now carries.
#[inline]
pub(crate) fn stamp(flow: &Flow, now: Nanos) -> u32 {
    timestamp_clock(now).wrapping_add(flow.ts_offset)
}

/// The options of a segment that is no SYN, when there is nothing to report.
#[inline]
fn plain_options(flow: &Flow, now: Nanos) -> OptionBytes {
    match flow.flags.has(Flags::TIMESTAMPS) {
        true => {
            OptionBytes::of_timestamps(Timestamps { value: stamp(flow, now), echo: flow.ts_recent })
        }
        false => OptionBytes::NONE,
    }
}

/// The options of a segment that is no SYN.
#[inline]
pub(crate) fn options(flow: &Flow, cold: &Cold, shared: &Shared, now: Nanos) -> OptionBytes {
    let mut options = plain_options(flow, now);
    if has_report(cold) {
        options.sack(sack_blocks(flow, cold, shared).as_slice());
    }
    options
}

/// The bytes of the send ring from `sequence` on, in two pieces; nothing when the ring is not what
/// it was said to be.
#[inline]
fn payload(
    ring: ReadPiece<'_>,
    ring_bytes: u32,
    sequence: Seq,
    bytes: u32,
) -> Option<[ReadPiece<'_>; 2]> {
    if bytes == 0 {
        return Some([ReadPiece::EMPTY; 2]);
    }
    if ring.len() != ring_bytes as usize {
        return None;
    }
    let (at, bytes) = ((sequence.0 & (ring_bytes - 1)) as usize, bytes as usize);
    if let Some(piece) = ring.get(at, bytes) {
        return Some([piece, ReadPiece::EMPTY]);
    }
    let first = bytes.min(ring.len() - at);
    Some([ring.get(at, first)?, ring.get(0, bytes - first)?])
}

/// Offers a segment to the caller, from one place for all but the common case: so that what the
/// caller does with that can be part of it.
#[inline(never)]
pub(crate) fn offer<O: Output>(out: &mut O, segment: &Segment<'_>) -> bool {
    out.segment(segment)
}

/// Offers a segment. False: the caller had no room, nothing has changed.
#[inline]
pub(crate) fn emit<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    plan: Plan,
) -> bool {
    emit_as::<_, _, false>(turn, id, flow, cold, plan)
}

/// The same; `PLAIN` says that it is known beforehand that there is nothing to report, and that
/// neither ECN nor urgent data has a part in it.
#[inline]
pub(crate) fn emit_as<B: Buffers, O: Output, const PLAIN: bool>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    plan: Plan,
) -> bool {
    let announcement = window::announce(flow, cold);
    let ring = match plan.bytes {
        0 => ReadPiece::EMPTY,
        _ => turn.buffers.send_ring(id),
    };
    let Some(payload) = payload(ring, cold.send_ring(), plan.sequence, plan.bytes) else {
        // What it should send is gone, so the peer must not wait for it.
        turn.shared.counters.bad_ring += 1;
        flow.flags.set(Flags::ABORT);
        return false;
    };
    let mut flags = tcp::ACK | plan.flags;
    let mut ecn = 0;
    if !PLAIN && flow.flags.has(Flags::ECN) {
        if flow.flags.has(Flags::ECHO_CONGESTION) {
            flags |= tcp::ECE;
        }
        if plan.is_new && plan.bytes > 0 {
            ecn = ECT;
            if flow.flags.has(Flags::CWR_OWED) {
                flags |= tcp::CWR;
            }
        }
    }
    let urgent = match !PLAIN && flow.flags.has(Flags::URGENT) {
        true => urgent::pointer(flow, cold, plan.sequence),
        false => None,
    };
    if urgent.is_some() {
        flags |= tcp::URG;
    }
    let segment = Segment {
        key: flow.key.reversed(),
        sequence: plan.sequence,
        acknowledgement: flow.rcv_nxt,
        flags,
        window: announcement.field,
        urgent: urgent.unwrap_or(0),
        options: match PLAIN {
            true => plain_options(flow, turn.now),
            false => options(flow, cold, turn.shared, turn.now),
        },
        payload,
        ecn,
        ip: cold.options.ip,
        route: flow.route,
    };
    let is_taken = match PLAIN {
        true => turn.out.segment(&segment),
        false => offer(turn.out, &segment),
    };
    if !is_taken {
        return false;
    }
    turn.shared.counters.transmitted += 1;
    flow.rcv_adv = announcement.edge;
    flow.rcv_acked = flow.rcv_nxt;
    flow.flags.clear(Flags::ACK_NOW);
    if !PLAIN && flags & tcp::CWR != 0 {
        flow.flags.clear(Flags::CWR_OWED);
    }
    cold.timers.ack = Nanos::FAR_FUTURE;
    cold.eager.acknowledged();
    if !PLAIN {
        cold.duplicate = (Seq(0), Seq(0));
    }
    true
}

/// Offers an acknowledgement and nothing else.
#[inline]
pub(crate) fn emit_ack<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
) -> bool {
    let sequence = flow.snd_nxt;
    emit(turn, id, flow, cold, Plan { sequence, flags: 0, bytes: 0, is_new: false })
}
