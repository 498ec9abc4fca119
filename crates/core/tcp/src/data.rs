//! Payload and FIN of a segment whose numbers lie in the window (RFC 9293 section 3.10.7.4).

use base::Nanos;
use piece::Piece;
use wire::tcp;

use crate::cold::Cold;
use crate::delayed::{PUSHED_TWICE, QUICK_MAX};
use crate::flow::{Flags, Flow};
use crate::io::{Buffers, Event, FlowId, Output};
use crate::reassembly::Range;
use crate::shared::Turn;
use crate::{Config, Seq};

/// Copies `bytes` to where their numbers say; false when the ring is not what it was said to be.
#[inline]
#[must_use]
pub(crate) fn place(ring: Piece<'_>, ring_bytes: u32, at: Seq, bytes: &[u8]) -> bool {
    if ring.len() != ring_bytes as usize || bytes.len() > ring.len() {
        return false;
    }
    let at = (at.0 & (ring_bytes - 1)) as usize;
    if let Some(place) = ring.get(at, bytes.len()) {
        place.copy_in(bytes);
        return true;
    }
    let (wrapped, ahead) = ring.split_at(at);
    let copied = ahead.copy_in(bytes);
    wrapped.copy_in(&bytes[copied..]);
    true
}

/// Tells the application once that there is more.
#[inline]
pub(crate) fn tell_readable<B, O: Output>(turn: &mut Turn<'_, B, O>, id: FlowId, flow: &mut Flow) {
    if !flow.flags.has(Flags::READABLE_TOLD) {
        flow.flags.set(Flags::READABLE_TOLD);
        turn.out.event(Event::Readable { flow: id });
    }
}

/// Decides when the bytes that have come in order are acknowledged (RFC 9293 section 3.8.6.3): the
/// second full segment at once, else with an answer, when the application has read the end of what
/// the peer had to say (see [`is_ack_due_on_read`]), or when the delay is over.
#[inline]
pub(crate) fn owe_ack(
    flow: &mut Flow,
    cold: &mut Cold,
    bytes: usize,
    is_pushed: bool,
    config: &Config,
    now: Nanos,
) {
    let bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
    if bytes < cold.rcv_mss {
        cold.eager.set_pushed((cold.eager.pushed() + 1).min(PUSHED_TWICE));
    } else {
        cold.rcv_mss = bytes;
        cold.eager.set_pushed(cold.eager.pushed().max(u8::from(is_pushed)));
    }
    let last = std::mem::replace(&mut cold.data_at, now);
    if flow.rcv_nxt.since(flow.rcv_acked) >= 2 * u32::from(cold.rcv_mss) {
        flow.flags.set(Flags::ACK_NOW);
        return;
    }
    if !flow.flags.has(Flags::PING_PONG) {
        if cold.eager.quick() == 0 && now.since(last) > cold.rtt.rto(config) {
            // After such a pause the peer may begin with a small window again.
            cold.eager.set_quick(QUICK_MAX);
        }
        let quick = cold.eager.quick();
        if quick > 0 {
            cold.eager.set_quick(quick - 1);
            flow.flags.set(Flags::ACK_NOW);
            return;
        }
    }
    cold.timers.ack = cold.timers.ack.min(now + config.ack_delay);
}

/// Whether the acknowledgement that waits leaves because the application has read: when more than
/// a full segment is owed one, or when all was read and its end was the end of what the peer had to
/// say, as far as anybody can tell: a segment that was pushed or not full, or two of these where
/// acknowledgements ride on answers (as in Linux).
#[inline]
pub(crate) fn is_ack_due_on_read(flow: &Flow, cold: &Cold) -> bool {
    if cold.timers.ack == Nanos::FAR_FUTURE {
        return false;
    }
    let least = if flow.flags.has(Flags::PING_PONG) { PUSHED_TWICE } else { 1 };
    flow.rcv_nxt.since(flow.rcv_acked) > u32::from(cold.rcv_mss)
        || (cold.eager.pushed() >= least && flow.rcv_read == flow.rcv_nxt)
}

/// The peer has missed something: it is told of all that comes, for a while.
fn acknowledge_quickly(flow: &mut Flow, cold: &mut Cold) {
    cold.eager.set_quick(QUICK_MAX);
    flow.flags.clear(Flags::PING_PONG);
    flow.flags.set(Flags::ACK_NOW);
}

/// Whether data that leaves now answers what came: soon after it, as Linux judges.
#[inline]
pub(crate) fn is_answer(cold: &Cold, config: &Config, now: Nanos) -> bool {
    cold.eager.has_heard() && now.since(cold.data_at) < config.ack_delay
}

/// The application wants what waits to be acknowledged as soon as all was read. Whether something
/// waits.
pub(crate) fn hurry(cold: &mut Cold) -> bool {
    let waits = cold.timers.ack != Nanos::FAR_FUTURE;
    if waits {
        cold.eager.set_pushed(cold.eager.pushed().max(1));
    }
    waits
}

/// Takes payload and FIN in. `sequence` is that of the first byte, and `flags` are the header's.
/// True: the peer's FIN, and all before it, have come.
pub(crate) fn receive<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    sequence: Seq,
    payload: &[u8],
    flags: u8,
) -> bool {
    let (has_fin, is_pushed) = (flags & tcp::FIN != 0, flags & tcp::PSH != 0);
    let end = sequence + payload.len() as u32;
    if has_fin && !end.is_after(flow.rcv_adv) && !end.is_before(flow.rcv_nxt) {
        // A second FIN elsewhere contradicts the first, which counts.
        cold.fin.get_or_insert(end);
    }
    let start = sequence.later(flow.rcv_nxt);
    let limit = cold.fin.map_or(flow.rcv_adv, |fin| fin.earlier(flow.rcv_adv));
    let new = Range { start, end: end.earlier(limit) };
    note_duplicate(turn, flow, cold, Range { start: sequence, end });
    if new.start.is_before(new.end) {
        if turn.buffers.receive_ring(id).is_empty() {
            // There is no memory for it now: it is as if it had been lost, and comes again.
            turn.shared.counters.no_ring += 1;
            return false;
        }
        let skipped = start.since(sequence) as usize;
        let bytes = &payload[skipped..skipped + new.end.since(new.start) as usize];
        take(turn, id, flow, cold, new, bytes, is_pushed);
    }
    if cold.fin == Some(flow.rcv_nxt) {
        flow.rcv_nxt += 1;
        flow.flags.set(Flags::ACK_NOW);
        return true;
    }
    if has_fin || new.end != end {
        flow.flags.set(Flags::ACK_NOW);
    }
    false
}

/// Numbers that had come before are reported as such (RFC 2883 section 4), and acknowledged at
/// once.
fn note_duplicate<B, O>(turn: &mut Turn<'_, B, O>, flow: &mut Flow, cold: &mut Cold, range: Range) {
    let Range { start, end } = range;
    if start == end {
        return;
    }
    let duplicate = if start.is_before(flow.rcv_nxt) {
        Range { start, end: end.earlier(flow.rcv_nxt) }
    } else if cold.reassembly.holds(&turn.shared.ranges, range) {
        range
    } else {
        return;
    };
    let bytes = duplicate.end.since(duplicate.start);
    turn.shared.counters.duplicate_bytes += u64::from(bytes);
    cold.duplicate = (duplicate.start, duplicate.end);
    acknowledge_quickly(flow, cold);
}

/// Puts new bytes into the ring, whether it is their turn or not.
fn take<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    new: Range,
    bytes: &[u8],
    is_pushed: bool,
) {
    let ring_bytes = cold.receive_ring();
    let ring = turn.buffers.receive_ring(id);
    let mut is_placed = true;
    let is_in_order = new.start == flow.rcv_nxt;
    if is_in_order {
        let had_gap = !cold.reassembly.is_empty();
        // Part of it may be there already, and what came first stays: only the gaps are filled.
        let ranges = &mut turn.shared.ranges;
        while is_placed && flow.rcv_nxt.is_before(new.end) {
            let stop =
                cold.reassembly.first_start(ranges).map_or(new.end, |at| at.earlier(new.end));
            let from = flow.rcv_nxt.since(new.start) as usize;
            let part = &bytes[from..stop.since(new.start) as usize];
            is_placed = place(ring, ring_bytes, flow.rcv_nxt, part);
            flow.rcv_nxt = cold.reassembly.advance(ranges, stop);
        }
        if let Some(fin) = cold.fin {
            // What had come behind it contradicts its end, which counts (as in Linux, which drops
            // those bytes).
            flow.rcv_nxt = flow.rcv_nxt.earlier(fin);
        }
        owe_ack(flow, cold, bytes.len(), is_pushed, &turn.shared.config, turn.now);
        if had_gap {
            // RFC 5681 section 4.2: a segment that fills a gap is acknowledged at once.
            flow.flags.set(Flags::ACK_NOW);
        }
    } else {
        turn.shared.counters.out_of_order += 1;
        cold.data_at = turn.now;
        let limit = turn.shared.config.ranges_per_flow_max;
        let is_taken = cold.reassembly.insert(&mut turn.shared.ranges, new, limit, |part| {
            let at = part.start.since(new.start) as usize;
            let part_bytes = &bytes[at..at + part.end.since(part.start) as usize];
            is_placed &= place(ring, ring_bytes, part.start, part_bytes);
        });
        if !is_taken {
            turn.shared.counters.ranges_full += 1;
        }
        acknowledge_quickly(flow, cold);
    }
    if !is_placed {
        turn.shared.counters.bad_ring += 1;
        flow.flags.set(Flags::ABORT);
    }
    if is_in_order && is_placed {
        tell_readable(turn, id, flow);
    }
}
