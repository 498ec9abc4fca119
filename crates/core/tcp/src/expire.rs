//! What happens when a flow's time has come, and when that will be next.

use base::Nanos;

use crate::acknowledge::{detect, lose};
use crate::cold::{Cold, Purpose};
use crate::flow::{Flags, Flow, State};
use crate::pacing;
use crate::recovery::Phase;
use crate::shared::Shared;
use crate::slow::Fate;
use crate::wheel::Wheel;
use crate::{CloseReason, fast, handshake};

/// Does what is due at `now`; segments leave with the next look at the flow.
pub(crate) fn run(flow: &mut Flow, cold: &mut Cold, shared: &mut Shared, now: Nanos) -> Fate {
    if cold.timers.life <= now {
        cold.timers.life = Nanos::FAR_FUTURE;
        let fate = life(flow, cold, shared, now);
        if fate != Fate::Keep {
            return fate;
        }
    }
    if cold.timers.retransmit <= now {
        cold.timers.retransmit = Nanos::FAR_FUTURE;
        cold.rearm = true;
        let fate = retransmit(flow, cold, shared, now);
        if fate != Fate::Keep {
            return fate;
        }
    }
    if cold.timers.pace <= now {
        pacing::elapse(cold);
    }
    let is_slow = fast::is_slow(flow, cold);
    flow.flags.put(Flags::SLOW, is_slow);
    // The time of a delayed acknowledgement needs nothing: `transmit.rs` sees that it has come.
    Fate::Keep
}

/// Keep-alive, and states that do not last (RFC 9293 sections 3.8.4 and 3.6.1).
fn life(flow: &mut Flow, cold: &mut Cold, shared: &mut Shared, now: Nanos) -> Fate {
    match flow.state {
        State::TimeWait => return Fate::Over(CloseReason::Finished),
        State::FinWait2 if flow.flags.has(Flags::ORPHAN) => {
            return Fate::Over(CloseReason::TimedOut);
        }
        _ => {}
    }
    let Some(keep_alive) = cold.options.keep_alive else { return Fate::Keep };
    let idle = Nanos::from_secs(u64::from(keep_alive.idle_s));
    let quiet = now.since(cold.heard_at);
    if quiet < idle || !flow.sent.is_empty() {
        // It was not quiet, or retransmission is asking already.
        cold.timers.life = (cold.heard_at + idle).max(now + Nanos::from_secs(1));
        return Fate::Keep;
    }
    let is_gone = match cold.user_timeout() {
        Some(limit) => quiet >= limit && cold.probes > 0,
        None => cold.probes >= keep_alive.probes.get(),
    };
    if is_gone {
        return Fate::Abort(CloseReason::TimedOut);
    }
    cold.probes = cold.probes.saturating_add(1);
    shared.counters.keep_alives += 1;
    flow.flags.set(Flags::ASK);
    cold.timers.life = now + Nanos::from_secs(u64::from(keep_alive.interval_s.max(1)));
    Fate::Keep
}

/// Whether the peer has been silent for long enough to count as gone.
fn is_given_up(flow: &Flow, cold: &Cold, shared: &Shared, now: Nanos) -> bool {
    let config = &shared.config;
    let user_timeout = cold.user_timeout();
    if user_timeout.is_some_and(|limit| now.since(cold.progress_at) >= limit) {
        return true;
    }
    match flow.state {
        State::SynSent => {
            let own = cold.options.syn_retries;
            cold.retries >= if own == 0 { config.syn_retries } else { own }
        }
        State::SynReceived => {
            cold.retries >= config.syn_ack_retries && !handshake::awaits_data(flow, cold)
        }
        // While a connection is opened it is one limit more, afterwards the only one (as in Linux).
        _ if user_timeout.is_some() => false,
        _ if flow.flags.has(Flags::ORPHAN) => {
            cold.retries >= config.retries.min(ORPHAN_RETRIES_MAX)
        }
        _ if is_shut_upon(flow) => now.since(cold.heard_at) >= config.rto_max + config.rto_max,
        _ => cold.retries >= config.retries,
    }
}

/// Whether the peer has taken its window back under what is on its way. What is sent again then
/// only asks whether it has opened, and a peer that answers may keep it shut for as long as it
/// likes (RFC 9293 section 3.8.6.1); one that is silent for twice the longest timeout is gone, as
/// in Linux.
fn is_shut_upon(flow: &Flow) -> bool {
    flow.snd_wnd == 0 && flow.state.is_synchronized() && !flow.flags.has(Flags::ORPHAN)
}

fn retransmit(flow: &mut Flow, cold: &mut Cold, shared: &mut Shared, now: Nanos) -> Fate {
    match cold.purpose {
        Purpose::Reorder => {
            let has_sack = flow.flags.has(Flags::SACK);
            detect(flow, cold, shared, has_sack, false, now);
            if cold.board.lost > 0
                && !matches!(cold.recovery.phase, Phase::Recovery | Phase::Timeout)
            {
                lose(flow, cold, flow.snd_nxt);
                shared.counters.recoveries += 1;
                // As RFC 6937 has it for the acknowledgement that begins a recovery.
                let in_flight = cold.board.in_flight(&flow.sent);
                flow.window.segments = flow.window.segments.min(in_flight + 1);
            }
            cold.purpose = Purpose::Retransmit;
            Fate::Keep
        }
        Purpose::TailProbe => {
            flow.flags.set(Flags::TAIL_PROBE);
            cold.purpose = Purpose::Retransmit;
            Fate::Keep
        }
        Purpose::Persist => {
            let is_left = flow.flags.has(Flags::ORPHAN) && cold.rtt.backoff >= ORPHAN_RETRIES_MAX;
            let is_shut = flow.usable() == 0;
            if is_shut && cold.rtt.backoff == 0 {
                // The first question: from now on nothing moves.
                cold.progress_at = now;
            }
            if is_left || (is_shut && is_given_up_asking(cold, shared, now)) {
                return Fate::Abort(CloseReason::TimedOut);
            }
            cold.rtt.backoff = cold.rtt.backoff.saturating_add(1);
            if !is_shut {
                // It has waited long enough for more.
                flow.flags.set(Flags::FORCE);
                flow.flags.clear(Flags::MORE);
            } else {
                cold.probes = cold.probes.saturating_add(1);
                shared.counters.window_probes += 1;
                flow.flags.set(Flags::PROBE);
            }
            Fate::Keep
        }
        Purpose::Retransmit | Purpose::Open => {
            if is_given_up(flow, cold, shared, now) {
                return if flow.state.is_synchronized() {
                    Fate::Abort(CloseReason::TimedOut)
                } else {
                    Fate::Over(CloseReason::TimedOut)
                };
            }
            let is_first = cold.retries == 0 && cold.rtt.backoff == 0;
            if !is_shut_upon(flow) {
                cold.retries = cold.retries.saturating_add(1);
            }
            cold.rtt.backoff = cold.rtt.backoff.saturating_add(1);
            shared.counters.timeouts += 1;
            if !flow.state.is_synchronized() {
                // While only data is waited for there is nothing to ask.
                if handshake::awaits_data(flow, cold) {
                    cold.timers.retransmit = now + cold.rtt.rto_backed_off(&shared.config);
                } else {
                    flow.flags.set(Flags::SYN_OWED);
                }
                return Fate::Keep;
            }
            let has_sack = flow.flags.has(Flags::SACK);
            let (control, window) = (&mut cold.congestion, &mut flow.window);
            let edges = (flow.snd_una, flow.snd_nxt);
            // A probe of the path that is lost says nothing about what is late.
            let may_be_late = !cold.search.is_probing();
            cold.recovery.time_out(control, window, edges, is_first, may_be_late);
            cold.board.mark_all_lost(&mut shared.sent, &flow.sent, has_sack);
            Fate::Keep
        }
    }
}

/// A connection that nobody here has any more sends the same again, or asks about a closed window,
/// so often at most: a peer that is gone, or answers and never reads, would keep it, and what it
/// was to get, for a quarter of an hour or for ever. About two minutes; Linux has the same number
/// (net.ipv4.tcp_orphan_retries).
const ORPHAN_RETRIES_MAX: u8 = 8;

/// A peer that seems to have thrown away what it had reported has this time, or half a round trip,
/// to say something else.
const RENEGING_MIN: Nanos = Nanos::from_millis(10);

/// A closed window may stay closed for ever, as long as the peer says so (RFC 9293 section
/// 3.8.6.1): only silence counts, unless the application has said how long it waits (as in Linux).
fn is_given_up_asking(cold: &Cold, shared: &Shared, now: Nanos) -> bool {
    let user_timeout = cold.user_timeout();
    cold.probes >= shared.config.retries
        || user_timeout.is_some_and(|limit| now.since(cold.progress_at) >= limit)
}

/// Leaves for later what [`arm`] would do now, if the wheel asks for the flow soon enough: most
/// timers are started anew many times before they would have run out. Whether it was possible; it
/// is, when a single segment is on its way and nothing else is going on.
///
/// [`catch_up`] has to be called before anything reads the timer.
#[inline]
pub(crate) fn postpone(
    flow: &Flow,
    cold: &mut Cold,
    shared: &Shared,
    wheel: &Wheel,
    index: u32,
    now: Nanos,
) -> bool {
    debug_assert!(cold.reorder_wait_us == 0, "who waits for late segments is slow");
    let may_wait = flow.sent.len() == 1
        && cold.options.user_timeout_ms.is_none()
        && wheel.is_armed_by(index, now + shared.rto_floor);
    if may_wait {
        cold.purpose = Purpose::Open;
        cold.timers.retransmit = now;
        cold.rearm = false;
    }
    may_wait
}

/// Works out what [`postpone`] has left open.
#[inline]
pub(crate) fn catch_up(flow: &Flow, cold: &mut Cold, shared: &Shared) {
    if cold.purpose == Purpose::Open {
        cold.purpose = Purpose::Retransmit;
        let start = std::mem::replace(&mut cold.timers.retransmit, Nanos::FAR_FUTURE);
        // Without a time what started it was acknowledged since.
        if start != Nanos::FAR_FUTURE {
            let rearm = std::mem::replace(&mut cold.rearm, true);
            arm(flow, cold, shared, start);
            cold.rearm = rearm;
        }
    }
}

/// When the timer that [`postpone`] has left open would run out: what [`catch_up`] would make of
/// it.
pub(crate) fn postponed(flow: &Flow, cold: &Cold, shared: &Shared) -> Nanos {
    let start = cold.timers.retransmit;
    let timeout = start + cold.rtt.rto_backed_off(&shared.config);
    probe_wait(flow, cold, shared).map_or(timeout, |wait| timeout.min(start + wait))
}

/// Sets the retransmission timer after everything that could leave has left.
pub(crate) fn arm(flow: &Flow, cold: &mut Cold, shared: &Shared, now: Nanos) {
    if !flow.state.is_synchronized() || flow.state == State::TimeWait {
        return;
    }
    let config = &shared.config;
    let user_timeout = cold.user_timeout();
    let timers = &mut cold.timers;
    let is_left = flow.state == State::FinWait2 && flow.flags.has(Flags::ORPHAN);
    if is_left && timers.life == Nanos::FAR_FUTURE {
        timers.life = now + config.time_wait;
    }
    if flow.sent.is_empty() {
        // Data that a window, CORK or an empty pool holds back: something has to bring it on.
        let is_waiting = (flow.unsent() > 0 || flow.fin_owed()) && flow.state.may_send();
        if !is_waiting {
            timers.retransmit = Nanos::FAR_FUTURE;
        } else if cold.purpose != Purpose::Persist || timers.retransmit == Nanos::FAR_FUTURE {
            cold.purpose = Purpose::Persist;
            timers.retransmit = now + cold.rtt.rto_backed_off(config);
            if let Some(limit) = user_timeout.filter(|_| cold.rtt.backoff > 0) {
                let last = (cold.progress_at + limit).max(now + Nanos(1));
                timers.retransmit = timers.retransmit.min(last);
            }
        }
        cold.rearm = false;
        return;
    }
    if !cold.rearm && timers.retransmit != Nanos::FAR_FUTURE && cold.purpose != Purpose::Persist {
        return;
    }
    cold.rearm = false;
    let mut timeout = now + cold.rtt.rto_backed_off(config);
    if let Some(limit) = user_timeout {
        timeout = timeout.min((cold.progress_at + limit).max(now + Nanos(1)));
    }
    if cold.board.is_reneging(&shared.sent, &flow.sent) {
        // Sooner, as in Linux: a report that is still true is followed by an acknowledgement.
        let half = Nanos(cold.rtt.smoothed().unwrap_or_default().0 / 2);
        timeout = timeout.min(now + half.max(RENEGING_MIN));
    }
    let wait = Nanos::from_micros(u64::from(std::mem::take(&mut cold.reorder_wait_us)));
    if wait > Nanos::ZERO {
        let due = now + wait;
        if due < timeout {
            cold.purpose = Purpose::Reorder;
            timers.retransmit = due;
            return;
        }
    }
    if let Some(wait) = probe_wait(flow, cold, shared) {
        // Where the timeout would come first, the probe takes its place (RFC 8985 section 7.2).
        cold.purpose = Purpose::TailProbe;
        cold.timers.retransmit = timeout.min(now + wait);
        return;
    }
    let timers = &mut cold.timers;
    // A timer that runs is not started anew because something more was sent (RFC 6298 section 5).
    if cold.purpose == Purpose::Retransmit && timers.retransmit != Nanos::FAR_FUTURE {
        timers.retransmit = timers.retransmit.min(timeout);
        return;
    }
    cold.purpose = Purpose::Retransmit;
    timers.retransmit = timeout;
}

/// After how long the end of a flight is probed (RFC 8985 section 7.2); nothing when it is not.
fn probe_wait(flow: &Flow, cold: &Cold, shared: &Shared) -> Option<Nanos> {
    let is_calm = shared.config.tail_probe
        && flow.flags.has(Flags::SACK)
        && cold.recovery.phase == Phase::Open
        && cold.recovery.probe().is_none()
        && !flow.flags.has(Flags::TAIL_PROBE)
        && cold.board.is_clean()
        && cold.retries == 0;
    if !is_calm {
        return None;
    }
    let round_trip = cold.rtt.smoothed()?;
    // A single segment's acknowledgement may be delayed; as long as Linux allows for.
    let delay = if flow.sent.len() == 1 { shared.config.rto_min } else { Nanos::from_millis(2) };
    Some(round_trip + round_trip + delay)
}
