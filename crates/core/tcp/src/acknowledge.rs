//! What an acknowledgement does to the sender (RFC 9293 section 3.10.7.4, RFC 5681, RFC 6675).

use base::Nanos;
use wire::tcp;

use crate::Seq;
use crate::cold::Cold;
use crate::congestion::{Report, Sample};
use crate::emit;
use crate::flow::{Flags, Flow};
use crate::options::Parsed;
use crate::pmtu;
use crate::reassembly::Blocks;
use crate::recovery::Phase;
use crate::scoreboard::{DUPLICATES, Delivery};
use crate::shared::Shared;

/// Whether an acknowledgement number can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is new, or says again what the last one said.
    Good,
    /// Overtaken by a later one.
    Old,
    /// Of something never sent, or far too old (RFC 5961 section 5).
    Impossible,
}

/// Judges `ack`.
#[inline]
pub(crate) fn judge(flow: &Flow, cold: &Cold, ack: Seq) -> Verdict {
    if ack.is_after(flow.snd_nxt) {
        return Verdict::Impossible;
    }
    if ack.is_before(flow.snd_una) {
        let is_far = flow.snd_una.since(ack) > cold.snd_wnd_max.max(1);
        return if is_far { Verdict::Impossible } else { Verdict::Old };
    }
    Verdict::Good
}

/// Takes the peer's window from a segment, unless it was overtaken. Whether it names another than
/// the one that counted so far.
#[inline]
pub(crate) fn update_window(
    flow: &mut Flow,
    cold: &mut Cold,
    sequence: Seq,
    ack: Seq,
    window: u16,
) -> bool {
    if ack.is_before(flow.snd_una) {
        // Counted from `snd_una`, its window would reach too far.
        return false;
    }
    let window = u32::from(window) << flow.snd_shift();
    let is_other = window != flow.snd_wnd;
    if is_newer(flow, sequence, ack, window) {
        flow.snd_wl1 = sequence;
        flow.snd_wnd = window;
        cold.snd_wnd_max = cold.snd_wnd_max.max(window);
    }
    is_other
}

/// Whether a window is newer than the one that counts; `ack` is not old.
///
/// What acknowledges more is newer whatever its number: a repetition of old data. Of two that say
/// the same the one with less window was overtaken by the other, as far as anybody can tell: a
/// window does not shrink (RFC 9293 section 3.8.6), unless its owner says that nothing fits any
/// more. All this is as in Linux.
#[inline]
pub(crate) fn is_newer(flow: &Flow, sequence: Seq, ack: Seq, window: u32) -> bool {
    ack.is_after(flow.snd_una)
        || flow.snd_wl1.is_before(sequence)
        || (flow.snd_wl1 == sequence && (window > flow.snd_wnd || window == 0))
}

/// Takes what `ack` covers off the list, and the round trip from it.
#[inline]
pub(crate) fn settle(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &mut Shared,
    ack: Seq,
    echo: Option<u32>,
    now: Nanos,
    delivery: &mut Delivery,
) {
    cold.probes = 0;
    if !ack.is_after(flow.snd_una) {
        return;
    }
    advance(flow, ack);
    let (board, rtt) = (&mut cold.board, &cold.rtt);
    board.acknowledge(&mut shared.sent, &mut flow.sent, ack, now, rtt, delivery);
    let by_stamp = |again_at: Nanos| {
        let echo = echo.filter(|echo| *echo != 0)?;
        let is_of_last_copy = echo.wrapping_sub(emit::stamp(flow, again_at)).cast_signed() >= 0;
        let millis = emit::stamp(flow, now).wrapping_sub(echo);
        let is_sane = is_of_last_copy && millis.cast_signed() >= 0;
        // Within the same millisecond it took up to one (as in Linux): taken for none it would be
        // the shortest round trip of all.
        is_sane.then(|| Nanos::from_millis(u64::from(millis.max(1))))
    };
    // Of what was sent again only a timestamp tells which copy is acknowledged (RFC 6298 section 3,
    // RFC 7323 section 4).
    let round_trip = match delivery.again_at {
        None => delivery.round_trip,
        Some(again_at) => by_stamp(again_at),
    };
    if let Some(round_trip) = round_trip {
        measure(flow, cold, round_trip, now);
    }
    note_progress(cold, now);
}

/// The common case of [`settle`]: the oldest segment, sent once, is acknowledged, and no other.
/// False, and nothing has changed, when it is any other case.
#[inline]
pub(crate) fn settle_oldest(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &mut Shared,
    ack: Seq,
    now: Nanos,
) -> bool {
    let pool = &mut shared.sent;
    let Some(round_trip) = cold.board.acknowledge_oldest(pool, &mut flow.sent, ack, now) else {
        return false;
    };
    cold.probes = 0;
    advance(flow, ack);
    measure(flow, cold, round_trip, now);
    note_progress(cold, now);
    true
}

/// Everything before `ack` is acknowledged; so is the small segment that Nagle's algorithm waits
/// for, unless it lies behind. The mark moves along: far enough behind it would seem to lie ahead.
#[inline]
fn advance(flow: &mut Flow, ack: Seq) {
    flow.snd_una = ack;
    flow.snd_small = flow.snd_small.later(ack);
    flow.flags.clear(Flags::HELD);
}

#[inline]
fn measure(flow: &mut Flow, cold: &mut Cold, round_trip: Nanos, now: Nanos) {
    let round_trip_us = cold.rtt.sample(round_trip, now);
    let (una, nxt) = (flow.snd_una, flow.snd_nxt);
    let sample = Sample { now, round_trip, round_trip_us, una, nxt };
    cold.congestion.measured(&mut flow.window, &sample);
}

/// The peer has taken something.
#[inline]
fn note_progress(cold: &mut Cold, now: Nanos) {
    (cold.rtt.backoff, cold.retries) = (0, 0);
    cold.progress_at = now;
    cold.rearm = true;
    cold.timers.retransmit = Nanos::FAR_FUTURE;
}

/// Lets the window grow, if it was what held the sender back.
#[inline]
pub(crate) fn grow(flow: &mut Flow, cold: &mut Cold, acked: u32, now: Nanos) {
    // In slow start a window that was half used may grow too (RFC 7661, as Linux does).
    let is_used = flow.flags.has(Flags::WINDOW_LIMITED)
        || (flow.window.is_in_slow_start() && flow.window.segments < cold.used.saturating_mul(2));
    if acked == 0 || !is_used {
        return;
    }
    let round_trip = cold.rtt.smoothed().unwrap_or_default();
    cold.congestion.acknowledged(&mut flow.window, &Report { now, acked, round_trip });
}

/// Those blocks of a SACK option that can be true; and the first, if it reports a duplicate.
fn believable(flow: &Flow, ack: Seq, options: &Parsed) -> (Blocks, Option<(Seq, Seq)>) {
    let mut blocks = Blocks::default();
    let mut duplicate = None;
    for (number, (start, end)) in options.sack().iter().enumerate() {
        if !start.is_before(*end) || end.is_after(flow.snd_nxt) {
            continue;
        }
        // RFC 2883 section 4: below the acknowledgement, or inside the next block.
        let is_inside_next = options.sack().get(1).is_some_and(|(outer_start, outer_end)| {
            !start.is_before(*outer_start) && !end.is_after(*outer_end)
        });
        if number == 0 && (!end.is_after(ack) || is_inside_next) {
            duplicate = Some((*start, *end));
        } else if start.is_after(ack) {
            blocks.push((*start, *end));
        }
    }
    (blocks, duplicate)
}

/// What the slow path knows of the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) ack: Seq,
    pub(crate) flags: u8,
    pub(crate) options: &'a Parsed,
    /// It carries nothing and takes no number.
    pub(crate) is_empty: bool,
    /// It names another window than the one that counted before it, so that it is no repetition.
    pub(crate) has_new_window: bool,
}

/// Does everything that a believable acknowledgement entails.
pub(crate) fn process(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &mut Shared,
    facts: &Facts<'_>,
    now: Nanos,
) {
    let Facts { ack, flags, options, is_empty, has_new_window } = *facts;
    let has_sack = flow.flags.has(Flags::SACK);
    let mut delivery = Delivery::default();
    let is_advance = ack.is_after(flow.snd_una);
    let is_repeated = !is_advance && is_empty && !has_new_window && !flow.sent.is_empty();
    let ack = ack.later(flow.snd_una);
    // What is acknowledged comes before what is reported: the reports of this acknowledgement do
    // not make it late.
    let echo = options.timestamps.map(|stamps| stamps.echo);
    settle(flow, cold, shared, ack, echo, now, &mut delivery);
    let mut has_all_twice = false;
    if has_sack {
        let (blocks, duplicate) = believable(flow, ack, options);
        delivery.duplicate = duplicate.is_some();
        let blocks = blocks.as_slice();
        let (board, rtt) = (&mut cold.board, &cold.rtt);
        board.report(&mut shared.sent, &flow.sent, blocks, now, rtt, &mut delivery);
        if let Some((start, end)) = duplicate {
            has_all_twice = cold.recovery.came_twice((start, end), flow.mss);
            grow_patient(flow, cold, end);
        }
    }
    if !has_sack {
        if delivery.acked > 0 {
            // Of what is acknowledged now, that many have made themselves known by duplicates.
            delivery.delivered = delivery.acked.saturating_sub(cold.board.sacked).max(1);
            // Nor does anybody know which of them have arrived before something was sent again.
            delivery.original = delivery.original.filter(|_| !delivery.has_copies);
            cold.board.discount_duplicates(&flow.sent, delivery.acked);
        } else if is_repeated {
            cold.board.count_duplicate(&flow.sent, &mut delivery);
        }
    }
    let is_marked = flow.flags.has(Flags::ECN) && flags & tcp::ECE != 0;
    cold.congestion.observe(delivery.delivered, is_marked, flow.snd_una, flow.snd_nxt);
    let has_new = flow.unsent() > 0 && flow.usable() > 0;
    let edges = (flow.snd_una, flow.snd_nxt);
    let is_for_nothing =
        cold.recovery.is_for_nothing(&delivery, is_advance, is_repeated, edges, has_new);
    if is_for_nothing {
        shared.counters.timeouts_for_nothing += 1;
        cold.retries = 0;
    }
    let is_late = is_advance
        && flow.flags.has(Flags::TIMESTAMPS)
        && echo.is_some_and(|echo| cold.recovery.is_late_by(echo));
    undo(flow, cold, shared, is_advance, is_late || is_for_nothing, has_all_twice);
    if is_marked && cold.recovery.mark(&mut cold.congestion, &mut flow.window, flow.snd_nxt) {
        flow.flags.set(Flags::CWR_OWED);
        shared.counters.marks_heeded += 1;
    }
    answer_probe(flow, cold, &delivery, is_advance, is_repeated);
    let fell_for_loss = matches!(cold.recovery.phase, Phase::Recovery | Phase::Timeout);
    if cold.recovery.advance(&mut flow.window, flow.snd_una, has_sack) && fell_for_loss {
        cold.board.recovered();
    }
    let newly_lost = detect(flow, cold, shared, has_sack, is_advance, now);
    // RFC 4821 section 7.6.1: a probe that is lost alone says that it was too long, not that the
    // network is full.
    let is_probe =
        cold.search.is_probing() && cold.board.lost == 1 && pmtu::is_lost(flow, cold, shared);
    if cold.board.lost > 0
        && !is_probe
        && !matches!(cold.recovery.phase, Phase::Recovery | Phase::Timeout)
    {
        lose(flow, cold, flow.snd_nxt);
        shared.counters.recoveries += 1;
    }
    if cold.recovery.is_reducing() {
        let in_flight = cold.board.in_flight(&flow.sent);
        cold.recovery.reduce(&mut flow.window, in_flight, &delivery, newly_lost);
    } else if delivery.acked > 0 || cold.board.reordering() > DUPLICATES {
        // What was reported before it was acknowledged does not count twice. Where segments are
        // often out of order the window grows with what is reported as well, as in Linux.
        grow(flow, cold, delivery.delivered, now);
    }
}

/// Finds losses: by RACK, or without SACK by counting. Returns how many are new.
pub(crate) fn detect(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &mut Shared,
    has_sack: bool,
    is_advance: bool,
    now: Nanos,
) -> u32 {
    let is_recovering = matches!(cold.recovery.phase, Phase::Recovery | Phase::Timeout);
    cold.reorder_wait_us = 0;
    if !has_sack {
        // RFC 6582 section 3.2: the third duplicate, and every partial acknowledgement after it.
        let is_lost = match cold.recovery.phase {
            Phase::Recovery => is_advance && flow.snd_una.is_before(cold.recovery.end),
            Phase::Timeout => false,
            Phase::Open | Phase::Marked => cold.board.sacked >= DUPLICATES,
        };
        let is_new = is_lost && cold.board.mark_first_lost(&mut shared.sent, &flow.sent);
        return u32::from(is_new);
    }
    if cold.board.sacked == 0 && !is_recovering {
        return 0;
    }
    let window =
        cold.board.reordering_window(is_recovering, cold.rtt.shortest(), cold.rtt.smoothed());
    let (newly_lost, wait) = cold.board.detect(&mut shared.sent, &flow.sent, window, now);
    if let Some(wait) = wait {
        cold.reorder_wait_us = u32::try_from(wait.0.div_ceil(1000)).unwrap_or(u32::MAX).max(1);
        cold.rearm = true;
    }
    newly_lost
}

/// RFC 8985 section 7.4: what the answer to a tail loss probe says.
fn answer_probe(
    flow: &mut Flow,
    cold: &mut Cold,
    delivery: &Delivery,
    is_advance: bool,
    is_repeated: bool,
) {
    let Some(end) = cold.recovery.probe() else { return };
    if flow.snd_una.is_before(end) {
        return;
    }
    let has_arrived_twice = delivery.duplicate || (!is_advance && is_repeated);
    if !cold.recovery.probe_was_again() || has_arrived_twice {
        cold.recovery.probe_answered();
    } else if flow.snd_una.is_after(end) {
        // Nothing came twice, so the probe has mended a loss, and the window has to fall for it.
        lose(flow, cold, flow.snd_una);
        cold.recovery.probe_answered();
    }
}

/// The window falls for a loss; until `end` is acknowledged for no other.
pub(crate) fn lose(flow: &mut Flow, cold: &mut Cold, end: Seq) {
    cold.recovery.lose(&mut cold.congestion, &mut flow.window, flow.snd_una, end);
}

/// Takes a fall of the window back, if nothing was lost: the first copies `came_late`, or all that
/// was sent again `came_twice`.
fn undo(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &mut Shared,
    is_advance: bool,
    came_late: bool,
    came_twice: bool,
) {
    let phase = cold.recovery.phase;
    // After a timeout only what is acknowledged says that nothing is missing.
    let is_known = came_late || (came_twice && (phase != Phase::Timeout || is_advance));
    if !is_known || !cold.recovery.undo(&mut flow.window) {
        return;
    }
    shared.counters.undone += 1;
    if came_twice {
        cold.board.stay_patient();
    }
    // What came twice says nothing about what else counts as lost: that begins a fall of its own.
    if came_late || phase == Phase::Timeout {
        cold.board.clear_lost(&mut shared.sent, &flow.sent, phase == Phase::Timeout);
    }
}

/// The peer has something twice that ends at `end`: late segments get more time, once a round trip
/// (RFC 8985 section 6.2 step 4). What a tail loss probe sent again says nothing about that.
fn grow_patient(flow: &Flow, cold: &mut Cold, end: Seq) {
    let is_of_probe = cold.recovery.probe_was_again() && cold.recovery.probe() == Some(end);
    // A number that is not on its way was acknowledged, however long ago.
    let until = cold.patient_until;
    let has_grown = until.is_after(flow.snd_una) && !until.is_after(flow.snd_nxt);
    if !is_of_probe && !has_grown {
        cold.patient_until = flow.snd_nxt;
        cold.board.grow_patient();
    }
}
