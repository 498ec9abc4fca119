//! Urgent data as Linux has it: a mark in the stream, pointing behind the urgent byte (RFC 6093).

use crate::Seq;
use crate::cold::Cold;
use crate::flow::{Flags, Flow};
use crate::io::{Event, FlowId, Output};
use crate::shared::Turn;

/// The urgent pointer of a segment that begins at `sequence`; nothing when it needs none.
pub(crate) fn pointer(flow: &mut Flow, cold: &Cold, sequence: Seq) -> Option<u16> {
    if !cold.snd_up.is_after(flow.snd_una) {
        flow.flags.clear(Flags::URGENT);
        return None;
    }
    if !cold.snd_up.is_after(sequence) {
        return None;
    }
    let ahead = cold.snd_up.since(sequence);
    // Farther than the field can say: as far as it can, so that the peer knows that there is some.
    Some(u16::try_from(ahead).unwrap_or(u16::MAX))
}

/// Takes the peer's urgent pointer in, which counts from `sequence`. A mark that was read past, or
/// that is not beyond the last one, says nothing new.
pub(crate) fn note<B, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    sequence: Seq,
    pointer: u16,
) {
    // It points behind the byte; zero stands for the byte itself, as Linux takes it.
    let mark = sequence + u32::from(pointer.saturating_sub(1));
    let is_past = mark.is_before(flow.rcv_nxt) || mark.is_before(flow.rcv_read);
    let is_known = flow.flags.has(Flags::URGENT_HEARD) && !mark.is_after(cold.rcv_up);
    if is_past || is_known {
        return;
    }
    cold.rcv_up = mark;
    flow.flags.set(Flags::URGENT_HEARD);
    turn.out.event(Event::Urgent { flow: id });
}

/// The application has read: a mark that it has read past is none any more. Kept, it would lie
/// ahead of what is read again once the numbers have gone around half their circle.
pub(crate) fn forget_read(flow: &mut Flow, cold: &Cold) {
    if cold.rcv_up.is_before(flow.rcv_read) {
        flow.flags.clear(Flags::URGENT_HEARD);
    }
}
