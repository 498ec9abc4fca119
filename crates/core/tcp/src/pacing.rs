//! A flight spread over its round trip: new segments leave one by one, as fast as the window
//! says, or as the congestion control's own rate.
//!
//! A burst of a whole window queues in the first slow router on its way; the same window, paced,
//! does not. What is sent again is not paced: there is little of it, and it is urgent.

use base::Nanos;

use crate::cold::Cold;
use crate::flow::Flow;
use crate::{Algorithm, FlowOptions};

/// In slow start the window doubles while it is sent, so that it leaves twice as fast; afterwards a
/// fifth faster than it is acknowledged, so that pacing is not what holds the sender back. Linux's
/// tcp_pacing_ss_ratio and tcp_pacing_ca_ratio, in percent.
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;

/// Marks a time of `Timers::pace` that has come: as a deadline it is far away, and the schedule
/// goes on from it.
const ELAPSED: u64 = 1 << 63;

/// A sender that was looked at late catches up by this much, or by a segment if that is more:
/// timers have their grain.
const CATCH_UP: Nanos = Nanos::from_micros(200);

/// Whether new segments have to wait.
#[inline]
pub(crate) fn is_early(cold: &Cold, now: Nanos) -> bool {
    cold.timers.pace > now && cold.timers.pace.0 < ELAPSED
}

/// The time has come: what waited for it leaves with the next look at the flow.
pub(crate) fn elapse(cold: &mut Cold) {
    cold.timers.pace.0 |= ELAPSED;
}

/// Whether what waited for that time may leave.
pub(crate) const fn is_elapsed(pace: Nanos) -> bool {
    pace.0 >= ELAPSED
}

/// When the next segment was to leave; nothing after a pause.
fn due(cold: &Cold) -> Option<Nanos> {
    let pace = cold.timers.pace;
    (pace != Nanos::FAR_FUTURE).then_some(Nanos(pace.0 & !ELAPSED))
}

/// Whether a flow's segments are spread.
pub(crate) fn is_wanted(options: &FlowOptions) -> bool {
    options.pacing || options.congestion == Algorithm::Timely || options.rate_max > 0
}

/// Time that `bytes` take at the flow's highest rate; zero: it has none.
fn rate_interval(options: &FlowOptions, bytes: u32) -> Nanos {
    let whole = u64::from(bytes) * 1_000_000_000;
    Nanos(whole.checked_div(u64::from(options.rate_max)).unwrap_or(0))
}

/// Time between two segments by the window, or by the congestion control's rate; nothing before the
/// first round trip was measured, or where only the application's highest rate holds.
fn interval(flow: &Flow, cold: &Cold) -> Option<Nanos> {
    if !cold.options.pacing && cold.options.congestion != Algorithm::Timely {
        return None;
    }
    if let Some(interval) = cold.congestion.interval() {
        return Some(interval);
    }
    let is_slow_start = flow.window.is_in_slow_start();
    let percent = if is_slow_start { SLOW_START_PERCENT } else { AVOIDANCE_PERCENT };
    let segments = u64::from(flow.window.segments.max(1));
    let round_trip = cold.rtt.smoothed()?;
    Some(Nanos(round_trip.0.saturating_mul(100) / (segments * percent)))
}

/// A new segment of `bytes` of payload has left.
pub(crate) fn note_sent(flow: &Flow, cold: &mut Cold, bytes: u32, now: Nanos) {
    // The first flight is small enough to leave at once, as Linux's fq lets it.
    let is_first_flight = flow.snd_una == cold.iss + 1;
    let by_window = interval(flow, cold).filter(|_| !is_first_flight).unwrap_or(Nanos::ZERO);
    let interval = by_window.max(rate_interval(&cold.options, bytes));
    if interval == Nanos::ZERO {
        return;
    }
    // After a pause two leave at once: a receiver acknowledges every second one.
    let behind = |by: Nanos| Nanos(now.0.saturating_sub(by.0));
    let from = match due(cold) {
        None => behind(interval),
        Some(due) => due.max(behind(interval.max(CATCH_UP))),
    };
    cold.timers.pace = from + interval;
}
