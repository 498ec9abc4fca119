//! TIMELY: a rate that follows the gradient of round trips (Mittal et al., SIGCOMM 2015).
//!
//! Round trips that grow say that a queue grows, before anything is lost or marked. Once a round
//! trip the rate goes up by a step while they shrink, and down in proportion while they grow. Below
//! a low threshold it only goes up, above a high one only down.

use base::Nanos;

use super::{Cause, Control, Report, Sample, Window};
use crate::Seq;

/// State of a flow's rate. Times are nanoseconds, at most some four seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timely {
    /// Segments a second; zero before the first round trip is known.
    rate: u32,
    previous_ns: u32,
    shortest_ns: u32,
    /// Smoothed difference from one round trip to the next.
    gradient_ns: i32,
    /// The present round ends when this number is acknowledged; none: no round has begun.
    round_end: Option<Seq>,
    /// Rounds in a row in which round trips did not grow.
    calm_rounds: u8,
}

/// A step up: the paper's 10 Mb/s, in segments of 1448 bytes.
const STEP: u32 = 863;
/// Below it no queue is worth a reaction.
const LOW_NS: u32 = 50_000;
/// Above it the queue is too long, whatever it does.
const HIGH_NS: u32 = 500_000;
/// The newest difference weighs 1/8.
const GRADIENT_SHIFT: u32 = 3;
/// The rate falls by at most eight tenths of the gradient.
const BETA: (u64, u64) = (8, 10);
/// This many calm rounds in a row, and the steps are five times as large.
const CALM_ROUNDS: u8 = 5;
const RATE_MIN: u32 = 1_000;
const RATE_MAX: u32 = 1 << 27;

impl Default for Timely {
    fn default() -> Self {
        Self {
            rate: 0,
            previous_ns: 0,
            shortest_ns: u32::MAX,
            gradient_ns: 0,
            round_end: None,
            calm_rounds: 0,
        }
    }
}

impl Timely {
    /// Time between two segments.
    #[inline]
    pub(crate) fn interval(&self) -> Nanos {
        Nanos(1_000_000_000 / u64::from(self.rate.max(RATE_MIN)))
    }

    /// A round trip without what a receiver adds that acknowledges every second segment: the first
    /// of two waits there for the other, which our own pace holds back. Taken for a queue it would
    /// keep a slow flow slow for ever.
    fn without_pause(&self, round_trip_ns: u32) -> u32 {
        let pause_ns = u32::try_from(self.interval().0).unwrap_or(u32::MAX);
        round_trip_ns.saturating_sub(pause_ns).max(self.shortest_ns)
    }

    fn step_up(&mut self) {
        self.calm_rounds = self.calm_rounds.saturating_add(1);
        let steps = if self.calm_rounds >= CALM_ROUNDS { 5 } else { 1 };
        self.rate = self.rate.saturating_add(steps * STEP).min(RATE_MAX);
    }

    /// Lowers the rate by `share` of `whole`, times beta.
    fn step_down(&mut self, share: u64, whole: u64) {
        self.calm_rounds = 0;
        let (numerator, denominator) = BETA;
        let share = share.min(whole);
        let cut = u64::from(self.rate) * numerator * share / (denominator * whole.max(1));
        self.rate = self.rate.saturating_sub(u32::try_from(cut).unwrap_or(u32::MAX)).max(RATE_MIN);
    }

    fn round(&mut self, round_trip_ns: u32) {
        let difference = i64::from(round_trip_ns) - i64::from(self.previous_ns);
        self.previous_ns = round_trip_ns;
        let smoothed = i64::from(self.gradient_ns);
        let smoothed = smoothed + ((difference - smoothed) >> GRADIENT_SHIFT);
        self.gradient_ns = i32::try_from(smoothed).unwrap_or(i32::MAX);
        // The paper's threshold is a round trip of a data centre; on a longer path it is a queue.
        let high_ns = self.shortest_ns.saturating_add(HIGH_NS);
        if round_trip_ns < LOW_NS {
            self.step_up();
        } else if round_trip_ns > high_ns {
            self.step_down((round_trip_ns - high_ns).into(), round_trip_ns.into());
        } else if let Ok(growth @ 1..) = u64::try_from(self.gradient_ns) {
            self.step_down(growth, self.shortest_ns.into());
        } else {
            self.step_up();
        }
    }
}

impl Control for Timely {
    fn reduce(&mut self, window: &Window, _cause: Cause) -> u32 {
        // A loss says that all thresholds came too late.
        self.calm_rounds = 0;
        self.rate = (self.rate / 2).max(RATE_MIN);
        window.segments / 2
    }

    /// The window follows the rate, with room for twice the round trip: it is what ends a flow
    /// whose acknowledgements stay away.
    #[inline]
    fn acknowledged(&mut self, window: &mut Window, report: &Report) {
        let twice = u64::from(self.rate) * 2 * report.round_trip.0 / 1_000_000_000;
        window.segments = u32::try_from(twice).unwrap_or(u32::MAX).clamp(10, super::SEGMENTS_MAX);
        window.threshold = window.segments;
    }

    #[inline]
    fn measured(&mut self, window: &mut Window, sample: &Sample) {
        let round_trip_ns = u32::try_from(sample.round_trip.0).unwrap_or(u32::MAX).max(1);
        self.shortest_ns = self.shortest_ns.min(round_trip_ns);
        if self.rate == 0 {
            // The first flight's rate.
            let rate = u64::from(window.segments) * 1_000_000_000 / u64::from(round_trip_ns);
            self.rate = u32::try_from(rate).unwrap_or(RATE_MAX).clamp(RATE_MIN, RATE_MAX);
            (self.previous_ns, self.round_end) = (round_trip_ns, Some(sample.nxt));
        } else if self.round_end.is_none_or(|end| !sample.una.is_before(end)) {
            self.round_end = Some(sample.nxt);
            self.round(self.without_pause(round_trip_ns));
        }
    }

    fn timed_out(&mut self) {
        *self = Self { rate: RATE_MIN, previous_ns: self.previous_ns, ..Self::default() };
    }
}
