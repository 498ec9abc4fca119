//! What a flow may send now, in segments cut straight from its ring.
//!
//! Lost segments go first, then new data as far as both windows reach, then, if nothing that left
//! carried it, the acknowledgement that is owed.

use base::Nanos;
use wire::tcp;

use crate::cold::Cold;
use crate::congestion::Window;
use crate::emit::{self, Plan, emit, emit_ack, emit_as};
use crate::flow::{Flags, Flow, State};
use crate::io::{Buffers, FlowId, Output};
use crate::scoreboard::{Scoreboard, Sent};
use crate::shared::Turn;
use crate::small::{is_nagled, may_leave_small};
use crate::{Config, data, pacing, pmtu, window};

/// How far a flow got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything that may leave has left.
    Done,
    /// There is more, but others wait too, or the caller has no room.
    More,
}

/// Segments of one flow before others get their turn.
const SEGMENTS_A_TURN: u32 = 64;

/// What became of one attempt.
enum Step {
    Sent,
    /// Nothing to send, or not yet.
    Nothing,
    /// The congestion window is full.
    Limited,
    /// The caller has no room.
    Full,
}

/// The common case: what the application has written fits into one segment, which may leave now.
/// All checks come before all writes; whatever fails one is for [`run`]. False: the caller has no
/// room.
#[inline]
pub(crate) fn answer<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
) -> Option<bool> {
    let bytes = flow.unsent();
    let mss = u32::from(flow.mss);
    let may_leave = !flow.flags.has(Flags::UNUSUAL)
        && bytes > 0
        && bytes <= mss
        && bytes <= flow.usable()
        && flow.sent.len() < flow.window.segments
        && cold.duplicate.0 == cold.duplicate.1
        && !(turn.shared.config.mtu_probing && cold.search.is_on())
        && turn.shared.may_send(flow, cold);
    if !may_leave || (bytes < mss && is_nagled(flow)) {
        return None;
    }
    debug_assert!(!emit::has_report(cold), "with a gap in what has come a flow is slow");
    let is_small = bytes < mss;
    let is_sent = match flow.flags.has(Flags::MARKING) {
        true => send_new::<_, _, false>(turn, id, flow, cold, tcp::PSH, bytes, is_small),
        false => send_new::<_, _, true>(turn, id, flow, cold, tcp::PSH, bytes, is_small),
    };
    if is_sent {
        note_use(flow, cold, false);
        flow.flags.clear(Flags::READ);
    }
    Some(is_sent)
}

/// Sends new data, and a FIN if `flags` has one. False: the caller has no room. For `PLAIN` see
/// [`emit_as`].
#[inline]
fn send_new<B: Buffers, O: Output, const PLAIN: bool>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    flags: u8,
    bytes: u32,
    is_small: bool,
) -> bool {
    if flow.sent.is_empty() {
        wake_up(turn.now, flow, cold, &turn.shared.config);
    }
    let start = flow.snd_nxt;
    let is_answer = data::is_answer(cold, &turn.shared.config, turn.now);
    let plan = Plan { sequence: start, flags, bytes, is_new: true };
    if !emit_as::<_, _, PLAIN>(turn, id, flow, cold, plan) {
        return false;
    }
    flow.snd_nxt = start + bytes + u32::from(flags & tcp::FIN);
    if is_small {
        flow.snd_small = flow.snd_nxt;
    }
    let record = Sent::new(start, flow.snd_nxt, turn.now, flags & tcp::PSH != 0);
    let is_recorded = Scoreboard::push(&mut turn.shared.sent, &mut flow.sent, record);
    debug_assert!(is_recorded, "whoever sends has looked for room");
    cold.rearm = true;
    if is_answer {
        flow.flags.set(Flags::PING_PONG);
    }
    true
}

/// Sends what a synchronized flow may send.
pub(crate) fn run<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
) -> Progress {
    let mut limited = false;
    if cold.search.is_probing() {
        pmtu::settle(flow, cold, turn.shared);
    }
    pmtu::age(flow, cold, &turn.shared.config, turn.now);
    if flow.state.may_send() {
        let mut sent = 0;
        if flow.flags.has(Flags::TAIL_PROBE) && !tail_probe(turn, id, flow, cold) {
            return Progress::More;
        }
        loop {
            if sent == SEGMENTS_A_TURN {
                return Progress::More;
            }
            match step(turn, id, flow, cold) {
                Step::Sent => sent += 1,
                Step::Nothing | Step::Limited if cold.recovery.give_up_new(flow.snd_nxt) => {}
                Step::Nothing => break,
                Step::Limited => {
                    limited = true;
                    break;
                }
                Step::Full => return Progress::More,
            }
        }
        if sent > 0 || limited {
            note_use(flow, cold, limited);
        }
        flow.flags.clear(Flags::FORCE);
    }
    if flow.flags.has(Flags::PROBE) || flow.flags.has(Flags::ASK) {
        // One number before what is expected: the peer has to answer (RFC 9293 section 3.8.4).
        let plan = Plan { sequence: flow.snd_una - 1, flags: 0, bytes: 0, is_new: false };
        if !emit(turn, id, flow, cold, plan) {
            return Progress::More;
        }
        flow.flags.clear(Flags::PROBE);
        flow.flags.clear(Flags::ASK);
    }
    let is_heard = flow.flags.has(Flags::READ)
        && (window::is_update_due(flow, cold) || data::is_ack_due_on_read(flow, cold));
    flow.flags.clear(Flags::READ);
    let is_late = cold.timers.ack <= turn.now;
    if is_late {
        // The answer that it was to ride on has not come.
        flow.flags.clear(Flags::PING_PONG);
    }
    let is_due = is_late || is_heard;
    let is_owed = flow.flags.has(Flags::ACK_NOW) || (is_due && flow.state.may_receive());
    if is_owed && !emit_ack(turn, id, flow, cold) {
        return Progress::More;
    }
    Progress::Done
}

/// Notes how far the window was used: the strongest sign of a round trip counts for all of it.
#[inline]
fn note_use(flow: &mut Flow, cold: &mut Cold, limited: bool) {
    let is_over = !flow.snd_una.is_before(cold.used_until);
    let was_limited = flow.flags.has(Flags::WINDOW_LIMITED);
    if is_over || limited || (!was_limited && flow.sent.len() > cold.used) {
        flow.flags.put(Flags::WINDOW_LIMITED, limited);
        (cold.used, cold.used_until) = (flow.sent.len(), flow.snd_nxt);
    }
}

/// Bytes of payload beside the options that the next segment carries.
#[inline]
fn payload_max<B, O>(turn: &Turn<'_, B, O>, flow: &Flow, cold: &Cold) -> u32 {
    let bytes = u32::from(flow.mss);
    if !emit::has_report(cold) {
        return bytes;
    }
    let ranges = emit::sack_blocks(flow, cold, turn.shared).as_slice().len();
    let ranges = ranges.min(if flow.flags.has(Flags::TIMESTAMPS) { 3 } else { 4 });
    let option_bytes = if ranges == 0 { 0 } else { 4 + 8 * ranges as u32 };
    bytes.saturating_sub(option_bytes).max(1)
}

#[inline]
fn step<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
) -> Step {
    let has_lost = cold.board.lost > cold.board.again && !cold.recovery.prefers_new();
    if !has_lost && flow.unsent() == 0 && !flow.fin_owed() {
        return Step::Nothing;
    }
    let is_free = cold.board.in_flight(&flow.sent) < flow.window.segments;
    if has_lost {
        return if is_free { send_again(turn, id, flow, cold) } else { Step::Limited };
    }
    let mut payload_max = payload_max(turn, flow, cold);
    // Beside a report of ranges a probe would be longer than what it is to find out.
    if cold.search.is_open()
        && !emit::has_report(cold)
        && let Some(bytes) = pmtu::probe_bytes(flow, cold)
    {
        payload_max = bytes;
    }
    let usable = flow.usable();
    let bytes = flow.unsent().min(usable).min(payload_max);
    let is_last = bytes == flow.unsent();
    let with_fin = is_last && flow.fin_owed() && usable > bytes;
    if bytes == 0 && !with_fin {
        return Step::Nothing;
    }
    if bytes < payload_max && !may_leave_small(flow, cold, bytes, is_last) {
        return Step::Nothing;
    }
    // A FIN alone is no load, and whoever closes should not wait for a full window (as in Linux).
    if !is_free && bytes > 0 {
        return Step::Limited;
    }
    if !turn.shared.may_send(flow, cold) {
        turn.shared.counters.sent_full += 1;
        return Step::Nothing;
    }
    if flow.flags.has(Flags::PACED) && pacing::is_early(cold, turn.now) {
        return Step::Nothing;
    }
    let start = flow.snd_nxt;
    // The end of what the application has written so far is the end of a message, unless it has
    // said that more follows.
    let push = if is_last && bytes > 0 && !flow.flags.has(Flags::MORE) { tcp::PSH } else { 0 };
    let flags = push | if with_fin { tcp::FIN } else { 0 };
    let is_small = bytes < payload_max;
    let is_sent = match flow.flags.has(Flags::MARKING) || emit::has_report(cold) {
        true => send_new::<_, _, false>(turn, id, flow, cold, flags, bytes, is_small),
        false => send_new::<_, _, true>(turn, id, flow, cold, flags, bytes, is_small),
    };
    if !is_sent {
        return Step::Full;
    }
    if bytes > u32::from(flow.mss) {
        cold.search.note_probe(start, bytes);
    }
    if flow.flags.has(Flags::PACED) {
        pacing::note_sent(flow, cold, bytes, turn.now);
    }
    cold.recovery.note_sent(false, 0);
    Step::Sent
}

/// The first segment after a pause: the path is no longer known so well (RFC 5681 section 4.1, and
/// half the window for each timeout's length of silence, as in Linux).
#[inline]
fn wake_up(now: Nanos, flow: &mut Flow, cold: &mut Cold, config: &Config) {
    let idle = now.since(cold.progress_at);
    cold.progress_at = now;
    cold.congestion.idled(idle);
    // Nothing was on its way, so that only questions to a closed window can have made it longer:
    // what leaves now was not lost so often.
    cold.rtt.backoff = 0;
    // No timeout is shorter, so this is all for whoever was not silent for long.
    if idle < config.rto_min {
        return;
    }
    if !config.slow_start_after_idle {
        return;
    }
    let Window { segments, threshold, .. } = flow.window;
    let halvings = (idle.0 / cold.rtt.rto(config).0.max(1)).min(31);
    if halvings > 0 && segments > config.initial_window {
        flow.window.threshold = threshold.max(segments - segments / 4);
        flow.window.segments = (segments >> halvings).max(config.initial_window);
    }
}

/// Sends the oldest segment again that counts as lost.
fn send_again<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
) -> Step {
    let Some(index) = Scoreboard::first_due(&turn.shared.sent, &flow.sent) else {
        return Step::Nothing;
    };
    match again(turn, id, flow, cold, index) {
        true => Step::Sent,
        false => Step::Full,
    }
}

/// Sends the segment at `index` of the list again, cut if it has become too long.
fn again<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    index: u32,
) -> bool {
    let payload_max = payload_max(turn, flow, cold);
    let mut segment = *turn.shared.sent.get(index);
    let cut = segment.start + payload_max;
    if segment.end.earlier(flow.snd_end).is_after(cut)
        && cold.board.split(&mut turn.shared.sent, &mut flow.sent, index, cut)
    {
        segment.end = cut;
    }
    let with_fin = segment.end.is_after(flow.snd_end);
    // Uncut because the pool is empty: what fits now, and the rest with the next timeout.
    let bytes = segment.end.since(segment.start) - u32::from(with_fin);
    let sends_fin = with_fin && bytes <= payload_max;
    let bytes = bytes.min(payload_max);
    let push = if segment.is_pushed() { tcp::PSH } else { 0 };
    let flags = push | if sends_fin { tcp::FIN } else { 0 };
    let plan = Plan { sequence: segment.start, flags, bytes, is_new: false };
    if !emit(turn, id, flow, cold, plan) {
        return false;
    }
    turn.shared.counters.retransmitted += 1;
    cold.board.sent_again(&mut turn.shared.sent, &flow.sent, index, turn.now);
    cold.recovery.note_sent(true, emit::stamp(flow, turn.now));
    cold.rearm = true;
    true
}

/// RFC 8985 section 7.3: new data if there is some and the window takes it, else the last segment
/// again. False: the caller has no room.
fn tail_probe<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
) -> bool {
    let next = flow.snd_nxt;
    let has_new = (flow.unsent() > 0 || flow.fin_owed())
        && flow.usable() > 0
        && turn.shared.may_send(flow, cold);
    if has_new {
        // One segment beyond the congestion window.
        let segments = flow.window.segments;
        flow.window.segments = cold.board.in_flight(&flow.sent) + 1;
        flow.flags.set(Flags::FORCE);
        let step = step(turn, id, flow, cold);
        flow.window.segments = segments;
        flow.flags.clear(Flags::FORCE);
        if matches!(step, Step::Full) {
            return false;
        }
    } else if let Some(last) = flow.sent.last() {
        if !again(turn, id, flow, cold, last) {
            return false;
        }
    } else {
        // All was acknowledged since: there is nothing to probe, and no answer to wait for.
        flow.flags.clear(Flags::TAIL_PROBE);
        return true;
    }
    flow.flags.clear(Flags::TAIL_PROBE);
    // What its pace holds back is no probe, but the next that runs out is the timeout (as in
    // Linux).
    turn.shared.counters.tail_probes += u64::from(!has_new || flow.snd_nxt != next);
    cold.recovery.probe_sent(flow.snd_nxt, !has_new);
    debug_assert!(flow.state != State::TimeWait, "nothing is on its way in TIME-WAIT");
    true
}
