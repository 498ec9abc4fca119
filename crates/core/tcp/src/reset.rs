//! Resets, and the acknowledgements that ask a doubtful peer to prove itself (RFC 5961).

use base::Nanos;
use piece::ReadPiece;
use wire::{FlowKey, tcp};

use crate::cold::Cold;
use crate::emit;
use crate::flow::{Flags, Flow};
use crate::io::{Buffers, Output, Segment};
use crate::shared::{Shared, Turn};
use crate::{IpFields, OptionBytes, Seq};

/// Owes an acknowledgement to a segment that no honest peer sends, or one that comes late; held
/// back when the last one was too short a time ago. The limit is the flow's own, so that it tells
/// nobody anything about other flows (CVE-2016-5696).
pub(crate) fn challenge(flow: &mut Flow, cold: &mut Cold, shared: &mut Shared, now: Nanos) {
    // Milliseconds wrap after 49 days, so that only a time that is as near as an interval counts.
    let (now_ms, interval_ms) = (millis(now), millis(shared.config.challenge_interval));
    let ahead = cold.challenge_ms.wrapping_sub(now_ms);
    if cold.challenge_ms != 0 && ahead != 0 && ahead <= interval_ms {
        shared.counters.challenges_limited += 1;
        return;
    }
    cold.challenge_ms = now_ms.wrapping_add(interval_ms).max(1);
    flow.flags.set(Flags::ACK_NOW);
}

const fn millis(time: Nanos) -> u32 {
    (time.0 / 1_000_000) as u32
}

/// What a segment for nobody was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unwanted {
    /// As it came in.
    pub(crate) key: FlowKey,
    pub(crate) header: tcp::Header,
    pub(crate) payload_bytes: u32,
    pub(crate) route: u32,
}

/// Answers a segment that belongs to nothing with a reset that its sender believes (RFC 9293
/// section 3.10.7.1). A reset is never answered.
pub(crate) fn refuse<B, O: Output>(turn: &mut Turn<'_, B, O>, unwanted: &Unwanted) {
    let Unwanted { key, header, payload_bytes, route } = unwanted;
    if header.flags & tcp::RST != 0 {
        return;
    }
    if turn.shared.is_silent {
        turn.shared.counters.unanswered += 1;
        return;
    }
    let numbers = payload_bytes
        + u32::from(header.flags & tcp::SYN != 0)
        + u32::from(header.flags & tcp::FIN != 0);
    let (sequence, acknowledgement, flags) = if header.flags & tcp::ACK != 0 {
        (Seq(header.acknowledgement), Seq(0), tcp::RST)
    } else {
        (Seq(0), Seq(header.sequence) + numbers, tcp::RST | tcp::ACK)
    };
    let reset = Segment {
        key: key.reversed(),
        sequence,
        acknowledgement,
        flags,
        window: 0,
        urgent: 0,
        options: OptionBytes::NONE,
        payload: [ReadPiece::EMPTY; 2],
        ecn: 0,
        ip: IpFields::default(),
        route: *route,
    };
    send(turn, &reset);
}

/// Resets a flow of ours. False: the caller has no room.
pub(crate) fn reset<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    flow: &Flow,
    cold: &Cold,
) -> bool {
    let reset = Segment {
        key: flow.key.reversed(),
        sequence: flow.snd_nxt,
        acknowledgement: flow.rcv_nxt,
        flags: tcp::RST | tcp::ACK,
        window: 0,
        urgent: 0,
        options: emit::options(flow, cold, turn.shared, turn.now),
        payload: [ReadPiece::EMPTY; 2],
        ecn: 0,
        ip: cold.options.ip,
        route: flow.route,
    };
    send(turn, &reset)
}

fn send<B, O: Output>(turn: &mut Turn<'_, B, O>, reset: &Segment<'_>) -> bool {
    let is_sent = emit::offer(turn.out, reset);
    turn.shared.counters.resets_sent += u64::from(is_sent);
    turn.shared.counters.transmitted += u64::from(is_sent);
    is_sent
}
