//! The common case: the next expected segment of an established flow.
//!
//! All checks come before all writes. Whatever fails one is handed on with its reason, and nothing
//! has changed; what passes all is straight-line work that cannot fail.

use base::Nanos;
use wire::tcp;

use crate::acknowledge::{grow, is_newer, settle, settle_oldest};
use crate::cold::Cold;
use crate::data::{owe_ack, place, tell_readable};
use crate::flow::{Flags, Flow};
use crate::io::{Buffers, CE, Event, FlowId, Incoming, Output};
use crate::options::{TIMESTAMPS_BYTES, TIMESTAMPS_START, Timestamps};
use crate::scoreboard::Delivery;
use crate::shared::{Shared, Turn};
use crate::{Counters, Seq};

/// Why a segment was handed on. Each reason has a counter of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Punt {
    State,
    Route,
    Flags,
    Options,
    Order,
    Ack,
    Window,
}

impl Punt {
    /// Counts it.
    pub(crate) fn count(self, counters: &mut Counters) {
        *match self {
            Self::State => &mut counters.punt_state,
            Self::Route => &mut counters.punt_route,
            Self::Flags => &mut counters.punt_flags,
            Self::Options => &mut counters.punt_options,
            Self::Order => &mut counters.punt_order,
            Self::Ack => &mut counters.punt_ack,
            Self::Window => &mut counters.punt_window,
        } += 1;
    }
}

/// The timestamps of a segment that has those options and no others, laid out as everybody does.
#[inline]
fn timestamps(segment: &[u8]) -> Option<Timestamps> {
    let (_, options) = segment.split_first_chunk::<20>()?;
    let [start @ .., v0, v1, v2, v3, e0, e1, e2, e3] = options.first_chunk::<12>()?;
    (*start == TIMESTAMPS_START).then(|| Timestamps {
        value: u32::from_be_bytes([*v0, *v1, *v2, *v3]),
        echo: u32::from_be_bytes([*e0, *e1, *e2, *e3]),
    })
}

/// Takes a segment in, or says why not.
#[inline]
pub(crate) fn receive<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    header: &tcp::Header,
    incoming: &Incoming<'_>,
) -> Result<(), Punt> {
    if flow.flags.has(Flags::SLOW) {
        return Err(Punt::State);
    }
    // Whether the peer can be there at all is for the slow path to ask.
    if incoming.route != flow.route {
        return Err(Punt::Route);
    }
    if header.flags & !tcp::PSH != tcp::ACK || incoming.ecn & CE == CE {
        return Err(Punt::Flags);
    }
    let has_stamps = flow.flags.has(Flags::TIMESTAMPS);
    let expected_bytes = tcp::MIN_HEADER_BYTES + if has_stamps { TIMESTAMPS_BYTES } else { 0 };
    if header.header_bytes != expected_bytes {
        return Err(Punt::Options);
    }
    let mut clock = flow.ts_recent;
    if has_stamps {
        let Some(stamps) = timestamps(incoming.segment) else { return Err(Punt::Options) };
        // RFC 7323 section 5.3: an older clock is for the slow path to drop.
        if stamps.value.wrapping_sub(flow.ts_recent).cast_signed() < 0 {
            return Err(Punt::Options);
        }
        clock = stamps.value;
    }
    let sequence = Seq(header.sequence);
    if sequence != flow.rcv_nxt {
        return Err(Punt::Order);
    }
    let payload = incoming.segment.get(usize::from(header.header_bytes)..).unwrap_or_default();
    if payload.len() > flow.rcv_wnd() as usize {
        return Err(Punt::Window);
    }
    let ack = Seq(header.acknowledgement);
    let acked = ack.since(flow.snd_una);
    if acked > flow.snd_nxt.since(flow.snd_una) || (acked == 0 && payload.is_empty()) {
        return Err(Punt::Ack);
    }
    // The copy is the last thing that can fail, and it changes nothing that anybody looks at yet.
    if !payload.is_empty()
        && !place(turn.buffers.receive_ring(id), cold.receive_ring(), sequence, payload)
    {
        return Err(Punt::Window);
    }

    flow.rcv_nxt += payload.len() as u32;
    // RFC 7323 section 4.3 (2): of what covers the last acknowledged number.
    if !sequence.is_after(flow.rcv_acked) {
        flow.ts_recent = clock;
    }
    let window = u32::from(header.window) << flow.snd_shift();
    if is_newer(flow, sequence, ack, window) {
        flow.snd_wnd = window;
        cold.snd_wnd_max = cold.snd_wnd_max.max(window);
        flow.snd_wl1 = sequence;
    }
    cold.heard_at = turn.now;
    if acked > 0 {
        let segments = match settle_oldest(flow, cold, turn.shared, ack, turn.now) {
            true => 1,
            false => settle_several(flow, cold, turn.shared, ack, incoming, turn.now),
        };
        cold.congestion.observe(segments, false, ack, flow.snd_nxt);
        grow(flow, cold, segments, turn.now);
        if flow.flags.has(Flags::WANTS_ROOM) {
            flow.flags.clear(Flags::WANTS_ROOM);
            turn.out.event(Event::Writable { flow: id });
        }
    } else {
        cold.probes = 0;
    }
    if !payload.is_empty() {
        let is_pushed = header.flags & tcp::PSH != 0;
        owe_ack(flow, cold, payload.len(), is_pushed, &turn.shared.config, turn.now);
        tell_readable(turn, id, flow);
    }
    turn.shared.counters.fast += 1;
    Ok(())
}

/// Takes off what an acknowledgement covers that is not of exactly one segment. Returns how many it
/// covers; none of them was reported before, or the flow would be slow.
fn settle_several(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &mut Shared,
    ack: Seq,
    incoming: &Incoming<'_>,
    now: Nanos,
) -> u32 {
    let mut delivery = Delivery::default();
    let stamps = timestamps(incoming.segment).filter(|_| flow.flags.has(Flags::TIMESTAMPS));
    let echo = stamps.map(|stamps| stamps.echo);
    settle(flow, cold, shared, ack, echo, now, &mut delivery);
    delivery.acked
}

/// Whether anything is going on that the checks above do not see.
pub(crate) fn is_slow(flow: &Flow, cold: &Cold) -> bool {
    flow.state != crate::State::Established
        // What came before its turn has brought a newer window than what comes now.
        || flow.snd_wl1.is_after(flow.rcv_nxt)
        || cold.recovery.phase != crate::recovery::Phase::Open
        || cold.recovery.probe().is_some()
        || !cold.board.is_clean()
        || !cold.reassembly.is_empty()
        || cold.fin.is_some()
        || flow.flags.has(Flags::ECHO_CONGESTION)
        || flow.flags.has(Flags::LAST_MARKED)
        || flow.flags.has(Flags::ORPHAN)
        || matches!(cold.reason, crate::CloseReason::Unreachable(_))
        || flow.flags.has(Flags::ABORT)
}
