//! The end of a connection: FINs from either side or from both at once, TIME-WAIT, and who may
//! take a name over from it (RFC 9293 section 3.6).

use base::Nanos;
use wire::tcp;

use crate::CloseReason;
use crate::Seq;
use crate::cold::{Cold, Purpose};
use crate::flow::{Flags, Flow, State};
use crate::options::Parsed;
use crate::reset::challenge;
use crate::shared::Shared;
use crate::slow::Fate;

/// The application sends no more. False: it had said so before.
pub(crate) fn finish_sending(flow: &mut Flow) -> bool {
    if flow.flags.has(Flags::FIN_QUEUED) {
        return false;
    }
    flow.flags.set(Flags::FIN_QUEUED);
    flow.flags.set(Flags::SLOW);
    flow.state = match flow.state {
        State::Established => State::FinWait1,
        State::CloseWait => State::LastAck,
        // Before the connection stands the FIN waits for it.
        other => other,
    };
    true
}

/// Whether the peer has acknowledged our FIN.
#[inline]
fn is_fin_acked(flow: &Flow) -> bool {
    flow.fin_sent() && flow.snd_una == flow.snd_nxt
}

/// After an acknowledgement: the state that follows; a reason when the flow is over.
pub(crate) fn on_ack(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &Shared,
    now: Nanos,
) -> Option<CloseReason> {
    if !is_fin_acked(flow) {
        return None;
    }
    match flow.state {
        State::FinWait1 => {
            flow.state = State::FinWait2;
            if flow.flags.has(Flags::ORPHAN) {
                // Nobody is left to wait for a FIN that may never come.
                cold.timers.life = now + shared.config.time_wait;
            }
            None
        }
        State::Closing => {
            enter_time_wait(flow, cold, shared, now);
            Some(CloseReason::Finished)
        }
        State::LastAck => Some(CloseReason::Finished),
        _ => None,
    }
}

/// The peer's FIN, and all before it, have come. A reason when both sides are through.
pub(crate) fn on_fin(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &Shared,
    now: Nanos,
) -> Option<CloseReason> {
    match flow.state {
        State::Established => {
            flow.state = State::CloseWait;
            None
        }
        State::FinWait1 => {
            flow.state = State::Closing;
            None
        }
        State::FinWait2 => {
            enter_time_wait(flow, cold, shared, now);
            Some(CloseReason::Finished)
        }
        _ => None,
    }
}

/// All is done; the name stays taken until no old segment can be about.
pub(crate) fn enter_time_wait(flow: &mut Flow, cold: &mut Cold, shared: &Shared, now: Nanos) {
    flow.state = State::TimeWait;
    cold.timers.retransmit = Nanos::FAR_FUTURE;
    cold.purpose = Purpose::Retransmit;
    cold.timers.ack = Nanos::FAR_FUTURE;
    cold.timers.pace = Nanos::FAR_FUTURE;
    cold.timers.life = now + shared.config.time_wait;
}

/// A segment for a name in TIME-WAIT. A SYN that cannot be an old one may have the name (RFC 9293
/// section 3.10.7.4, RFC 6191 section 2). A SYN that may be one is answered, so that a peer that
/// has sent it resets what it knows nothing of and asks again.
pub(crate) fn in_time_wait(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &mut Shared,
    header: &tcp::Header,
    options: &Parsed,
    carries_nothing: bool,
    now: Nanos,
) -> Fate {
    // RFC 1337 would have a reset not shorten TIME-WAIT, for it may be an old one. Linux lets the
    // one that has the next number do so (net.ipv4.tcp_rfc1337 is 0): else whoever takes the name
    // with an older number waits for a minute.
    if header.flags & tcp::RST != 0 {
        return match Seq(header.sequence) == flow.rcv_nxt {
            true => Fate::Over(CloseReason::Finished),
            false => Fate::Keep,
        };
    }
    let stamps = options.timestamps.filter(|_| flow.flags.has(Flags::TIMESTAMPS));
    if header.flags & tcp::SYN != 0 && header.flags & tcp::ACK == 0 {
        let is_newer = match stamps {
            Some(stamps) => stamps.value.wrapping_sub(flow.ts_recent).cast_signed() > 0,
            None => Seq(header.sequence).is_after(flow.rcv_nxt),
        };
        if is_newer {
            return Fate::Reuse;
        }
    }
    if header.flags & tcp::FIN != 0 {
        cold.timers.life = now + shared.config.time_wait;
    }
    // After a simultaneous close the peer is in TIME-WAIT too: an answer to each of its answers
    // would go on until both end.
    if !carries_nothing {
        flow.flags.set(Flags::ACK_NOW);
    } else if Seq(header.sequence) != flow.rcv_nxt {
        challenge(flow, cold, shared, now);
    }
    Fate::Keep
}
