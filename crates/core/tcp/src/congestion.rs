//! Congestion control: how many segments may be on their way, chosen per flow.
//!
//! Windows count segments, as Linux's do. A control decides two things: what a window falls to
//! when the network is too full, and how it grows when it is not. How it falls from one to the
//! other is `recovery.rs`.

mod cubic;
mod dctcp;
mod hystart;
mod new_reno;
mod timely;

use base::Nanos;

use crate::{Algorithm, Seq};
pub(crate) use cubic::Cubic;
pub(crate) use dctcp::Dctcp;
pub(crate) use new_reno::NewReno;
pub(crate) use timely::Timely;

/// A congestion window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Segments that may be on their way.
    pub(crate) segments: u32,
    /// Below it the window grows by what is acknowledged (slow start).
    pub(crate) threshold: u32,
    /// Segments acknowledged that have not yet made the window grow.
    pub(crate) count: u32,
}

/// No window grows beyond it: more segments than a window of 2^30 bytes can hold.
const SEGMENTS_MAX: u32 = 1 << 22;

impl Default for Window {
    fn default() -> Self {
        Self { segments: 10, threshold: u32::MAX, count: 0 }
    }
}

impl Window {
    /// Whether nothing is known yet of what the path takes.
    #[inline]
    pub(crate) const fn is_in_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// Slow start (RFC 5681 section 3.1, counting segments); what is acknowledged beyond the
    /// threshold is left for the caller.
    #[inline]
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.segments.saturating_add(acked).min(self.threshold).min(SEGMENTS_MAX);
        let used = grown.saturating_sub(self.segments);
        self.segments = grown.max(self.segments);
        acked - used.min(acked)
    }

    /// Grows by one for every `per_segment` acknowledged.
    #[inline]
    pub(crate) fn grow(&mut self, acked: u32, per_segment: u32) {
        let per_segment = per_segment.max(1);
        // What was saved up at a higher price buys one step at a lower price, not many.
        self.count = self.count.min(per_segment);
        self.count = self.count.saturating_add(acked);
        let steps = self.count / per_segment;
        self.count -= steps * per_segment;
        self.segments = self.segments.saturating_add(steps).min(SEGMENTS_MAX);
    }
}

/// Why a window has to fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A segment was lost.
    Loss,
    /// A router has marked one (RFC 3168).
    Mark,
}

/// What an acknowledgement says about the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) now: Nanos,
    /// Segments newly acknowledged in order.
    pub(crate) acked: u32,
    /// Smoothed round trip.
    pub(crate) round_trip: Nanos,
}

/// A measured round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) now: Nanos,
    pub(crate) round_trip: Nanos,
    /// The same in microseconds, at least one.
    pub(crate) round_trip_us: u32,
    /// What is acknowledged now, and what was sent.
    pub(crate) una: Seq,
    pub(crate) nxt: Seq,
}

/// A congestion control.
pub(crate) trait Control {
    /// What the window has to fall to.
    fn reduce(&mut self, window: &Window, cause: Cause) -> u32;

    /// Grows the window; called only while the window is what holds the sender back.
    fn acknowledged(&mut self, window: &mut Window, report: &Report);

    /// Hears of every acknowledgement whether the peer echoed a mark with it.
    #[inline]
    fn observe(&mut self, _delivered: u32, _is_marked: bool, _snd_una: Seq, _snd_nxt: Seq) {}

    /// A round trip was measured.
    #[inline]
    fn measured(&mut self, _window: &mut Window, _sample: &Sample) {}

    /// A timeout has ended what was known of the path.
    fn timed_out(&mut self) {}

    /// The sender had nothing to send for this time, in which the path was therefore not probed.
    #[inline]
    fn idled(&mut self, _length: Nanos) {}
}

/// A flow's own. The choice is a branch, not a pointer: it is made for every acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Congestion {
    NewReno(NewReno),
    Cubic(Cubic),
    Dctcp(Dctcp),
    Timely(Timely),
}

impl Congestion {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::NewReno => Self::NewReno(NewReno),
            Algorithm::Cubic => Self::Cubic(Cubic::default()),
            Algorithm::Dctcp => Self::Dctcp(Dctcp::default()),
            Algorithm::Timely => Self::Timely(Timely::default()),
        }
    }

    /// See [`Control::reduce`]; never below two segments.
    pub(crate) fn reduce(&mut self, window: &Window, cause: Cause) -> u32 {
        let segments = match self {
            Self::NewReno(control) => control.reduce(window, cause),
            Self::Cubic(control) => control.reduce(window, cause),
            Self::Dctcp(control) => control.reduce(window, cause),
            Self::Timely(control) => control.reduce(window, cause),
        };
        segments.max(2)
    }

    /// See [`Control::acknowledged`].
    #[inline]
    pub(crate) fn acknowledged(&mut self, window: &mut Window, report: &Report) {
        match self {
            Self::NewReno(control) => control.acknowledged(window, report),
            Self::Cubic(control) => control.acknowledged(window, report),
            Self::Dctcp(control) => control.acknowledged(window, report),
            Self::Timely(control) => control.acknowledged(window, report),
        }
    }

    /// See [`Control::observe`].
    #[inline]
    pub(crate) fn observe(&mut self, delivered: u32, is_marked: bool, una: Seq, nxt: Seq) {
        match self {
            Self::NewReno(control) => control.observe(delivered, is_marked, una, nxt),
            Self::Cubic(control) => control.observe(delivered, is_marked, una, nxt),
            Self::Dctcp(control) => control.observe(delivered, is_marked, una, nxt),
            Self::Timely(control) => control.observe(delivered, is_marked, una, nxt),
        }
    }

    /// See [`Control::measured`].
    #[inline]
    pub(crate) fn measured(&mut self, window: &mut Window, sample: &Sample) {
        if let Self::Cubic(control) = self {
            control.measured(window, sample);
        } else if let Self::Timely(control) = self {
            control.measured(window, sample);
        }
    }

    /// Time between two segments, if the control sets a rate and not only a window.
    #[inline]
    pub(crate) fn interval(&self) -> Option<Nanos> {
        match self {
            Self::Timely(control) => Some(control.interval()),
            _ => None,
        }
    }

    /// See [`Control::timed_out`].
    pub(crate) fn timed_out(&mut self) {
        match self {
            Self::NewReno(control) => control.timed_out(),
            Self::Cubic(control) => control.timed_out(),
            Self::Dctcp(control) => control.timed_out(),
            Self::Timely(control) => control.timed_out(),
        }
    }

    /// See [`Control::idled`].
    #[inline]
    pub(crate) fn idled(&mut self, length: Nanos) {
        match self {
            Self::NewReno(control) => control.idled(length),
            Self::Cubic(control) => control.idled(length),
            Self::Dctcp(control) => control.idled(length),
            Self::Timely(control) => control.idled(length),
        }
    }
}

#[cfg(test)]
mod tests;
