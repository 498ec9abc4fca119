//! How the window falls and comes back: fast recovery with proportional rate reduction (RFC 6937),
//! timeouts (RFC 5681 section 3.1), congestion marks (RFC 3168), and taking it back when nothing
//! was lost (RFC 3522, RFC 4015).

use crate::Seq;
use crate::congestion::{Cause, Congestion, Window};
use crate::scoreboard::Delivery;

/// What the sender is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing special.
    #[default]
    Open,
    /// The window falls because of a congestion mark.
    Marked,
    /// The window falls because of a loss that acknowledgements told of.
    Recovery,
    /// A timeout: slow start from one segment.
    Timeout,
}

/// State of a fall; quiet when [`Phase::Open`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// It is over when this number is acknowledged.
    pub(crate) end: Seq,
    /// Window when it began.
    prior: u32,
    delivered: u32,
    sent: u32,
    /// What to return to when nothing was lost: window and threshold; a window of zero: nothing.
    undo: (u32, u32),
    /// Timestamp of the first segment sent again, if one was.
    stamp: u32,
    has_stamp: bool,
    is_probing: bool,
    /// Number at which a tail loss probe was sent (RFC 8985 section 7.3).
    probe_end: Seq,
    /// The probe was a segment sent before, not new data.
    pub(crate) probe_was_again: bool,
}

impl Recovery {
    /// The number at which a tail loss probe was sent that is not answered yet.
    #[inline]
    pub(crate) fn probe(&self) -> Option<Seq> {
        self.is_probing.then_some(self.probe_end)
    }

    /// A tail loss probe was sent, or answered.
    pub(crate) fn set_probe(&mut self, end: Option<Seq>) {
        self.is_probing = end.is_some();
        self.probe_end = end.unwrap_or(self.probe_end);
    }

    fn begin(&mut self, phase: Phase, window: &Window, nxt: Seq) {
        self.phase = phase;
        self.end = nxt;
        self.prior = window.segments.max(1);
        (self.delivered, self.sent) = (0, 0);
        self.is_probing = false;
    }

    /// A congestion mark was echoed; at most one fall a round trip. Whether this is one.
    pub(crate) fn mark(&mut self, control: &mut Congestion, window: &mut Window, nxt: Seq) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        let threshold = control.reduce(window, Cause::Mark);
        self.begin(Phase::Marked, window, nxt);
        self.undo = (0, 0);
        window.threshold = threshold;
        true
    }

    /// Acknowledgements told of a loss.
    pub(crate) fn lose(&mut self, control: &mut Congestion, window: &mut Window, nxt: Seq) {
        match self.phase {
            Phase::Recovery | Phase::Timeout => {}
            // The window is falling already: once a round trip is enough.
            Phase::Marked => self.phase = Phase::Recovery,
            Phase::Open => {
                let before = (window.segments, window.threshold);
                let threshold = control.reduce(window, Cause::Loss);
                self.begin(Phase::Recovery, window, nxt);
                (self.undo, self.has_stamp) = (before, false);
                window.threshold = threshold;
            }
        }
    }

    /// The retransmission timer fired.
    pub(crate) fn time_out(
        &mut self,
        control: &mut Congestion,
        window: &mut Window,
        nxt: Seq,
        is_first: bool,
    ) {
        if self.phase != Phase::Timeout || is_first {
            let before = (window.segments, window.threshold);
            if self.phase == Phase::Open {
                window.threshold = control.reduce(window, Cause::Loss);
                self.undo = before;
            }
            self.has_stamp = false;
            control.timed_out();
        }
        self.begin(Phase::Timeout, window, nxt);
        (window.segments, window.count) = (1, 0);
    }

    /// The path carries less than was thought: what was too long is sent again in pieces. The
    /// window counts segments, so that it has fallen with them already.
    pub(crate) fn recut(&mut self, window: &mut Window, nxt: Seq) {
        if self.phase != Phase::Timeout {
            window.threshold = window.threshold.min(window.segments.max(2));
            (self.undo, self.has_stamp) = ((0, 0), false);
            self.begin(Phase::Timeout, window, nxt);
        }
    }

    /// A segment was sent, perhaps again; `stamp` is its timestamp.
    #[inline]
    pub(crate) fn note_sent(&mut self, is_again: bool, stamp: u32) {
        if self.phase == Phase::Open {
            return;
        }
        self.sent = self.sent.saturating_add(1);
        if is_again && !self.has_stamp {
            (self.stamp, self.has_stamp) = (stamp, true);
        }
    }

    /// The peer echoes a timestamp from before anything was sent again, for data that arrived: the
    /// first copies were only late. Returns to the window of before (RFC 3522 section 3.2).
    pub(crate) fn undo(&mut self, window: &mut Window, echo: u32) -> bool {
        let is_late_only = self.has_stamp && echo.wrapping_sub(self.stamp).cast_signed() < 0;
        let (segments, threshold) = self.undo;
        if !is_late_only || segments == 0 {
            return false;
        }
        window.segments = window.segments.max(segments);
        window.threshold = threshold;
        self.phase = Phase::Open;
        (self.undo, self.has_stamp) = ((0, 0), false);
        true
    }

    /// `una` is acknowledged: whether that ended the fall.
    pub(crate) fn advance(&mut self, window: &mut Window, una: Seq, has_sack: bool) -> bool {
        if self.phase == Phase::Open || una.is_before(self.end) {
            return false;
        }
        // Without SACK what comes for the same number may be duplicates of old acknowledgements
        // and must not start another recovery (RFC 6582 section 4.1).
        if !has_sack && self.phase == Phase::Recovery && una == self.end {
            return false;
        }
        if matches!(self.phase, Phase::Marked | Phase::Recovery) {
            window.segments = window.threshold;
            window.count = 0;
        }
        self.phase = Phase::Open;
        (self.undo, self.has_stamp) = ((0, 0), false);
        true
    }

    /// Whether the window falls by proportional rate reduction.
    #[inline]
    pub(crate) const fn is_reducing(&self) -> bool {
        matches!(self.phase, Phase::Marked | Phase::Recovery)
    }

    /// RFC 6937 section 3: as many may leave as arrive, in proportion; with its slow-start bound
    /// when the path holds less than the threshold.
    pub(crate) fn reduce(
        &mut self,
        window: &mut Window,
        in_flight: u32,
        delivery: &Delivery,
        newly_lost: u32,
    ) {
        let newly = delivery.delivered;
        if newly == 0 && newly_lost == 0 {
            return;
        }
        self.delivered = self.delivered.saturating_add(newly);
        let allowed = if in_flight > window.threshold {
            let share = u64::from(window.threshold) * u64::from(self.delivered);
            let share = share.div_ceil(u64::from(self.prior));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_sub(self.sent)
        } else {
            // Without new losses one more, so that it grows as slow start would.
            let bonus = u32::from(delivery.acked > 0 && newly_lost == 0);
            let limit = self.delivered.saturating_sub(self.sent).max(newly) + bonus;
            limit.min(window.threshold - in_flight)
        };
        // The first segment sent again leaves at once.
        let allowed = allowed.max(u32::from(self.sent == 0));
        window.segments = (in_flight + allowed).max(1);
    }
}
