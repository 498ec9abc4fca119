//! When what has come is acknowledged (RFC 9293 section 3.8.6.3), as Linux does: at once, with an
//! answer, when it was read, or when the delay is over.

use base::Nanos;

use crate::Config;
use crate::cold::Cold;
use crate::flow::{Flags, Flow};

/// So many segments are acknowledged at once at most (Linux's TCP_MAX_QUICKACKS).
const QUICK_MAX: u8 = 16;
/// As high as [`Eager::pushed`] counts.
const PUSHED_TWICE: u8 = 2;

/// What decides how long an acknowledgement waits, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eager(u8);

impl Eager {
    /// That of a flow to which nothing ever came.
    pub(crate) const NEW: Self = Self(QUICK_MAX << 2);

    /// Segments that are acknowledged at once from now on, so that a peer in slow start is not
    /// slowed down.
    const fn quick(self) -> u8 {
        self.0 >> 2
    }

    const fn set_quick(&mut self, quick: u8) {
        self.0 = (quick << 2) | self.pushed();
    }

    /// Segments since the last acknowledgement that seem to end what the peer had to say: none, one
    /// or several.
    const fn pushed(self) -> u8 {
        self.0 & 0b11
    }

    const fn set_pushed(&mut self, pushed: u8) {
        self.0 = (self.0 & !0b11) | pushed;
    }

    /// All that has come is acknowledged.
    #[inline]
    pub(crate) const fn acknowledged(&mut self) {
        self.set_pushed(0);
    }

    /// Whether something came that was acknowledged at once: never, if nothing ever came.
    #[inline]
    const fn has_heard(self) -> bool {
        self.quick() < QUICK_MAX
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
pub(crate) fn acknowledge_quickly(flow: &mut Flow, cold: &mut Cold) {
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
