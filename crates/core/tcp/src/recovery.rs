//! How the window falls and comes back: fast recovery with proportional rate reduction (RFC 6937),
//! timeouts (RFC 5681 section 3.1), congestion marks (RFC 3168), and taking it back when nothing
//! was lost (RFC 3522, RFC 4015, RFC 5682, and RFC 3708 as Linux reads it).

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
    /// First number that was not acknowledged when the fall began that may be taken back.
    start: Seq,
    /// Timestamp of the first segment sent again; zero: none was.
    stamp: u32,
    /// Number at which a tail loss probe was sent (RFC 8985 section 7.3).
    probe_end: Seq,
    probe: Probe,
    frto: Frto,
    /// Segments sent again that the peer has not yet said to have twice, or one of the two below.
    again: u8,
}

/// A tail loss probe that is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Probe {
    #[default]
    None,
    /// New data.
    New,
    /// A segment sent before.
    Again,
}

/// Whether it is watched for what tells a late acknowledgement from a loss after a timeout (RFC
/// 5682).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Frto {
    #[default]
    Off,
    On,
    /// The next segments are to be new data, whose acknowledgement will tell.
    SendNew,
}

/// None was sent again.
const NONE_AGAIN: u8 = u8::MAX;
/// More were sent again than are counted: how many of them came twice is not known.
const MANY_AGAIN: u8 = u8::MAX - 1;

impl Recovery {
    /// The number at which a tail loss probe was sent that is not answered yet.
    #[inline]
    pub(crate) fn probe(&self) -> Option<Seq> {
        (self.probe != Probe::None).then_some(self.probe_end)
    }

    /// Whether that probe was a segment sent before.
    pub(crate) fn probe_was_again(&self) -> bool {
        self.probe == Probe::Again
    }

    /// A tail loss probe was sent, of new data or not.
    pub(crate) fn probe_sent(&mut self, end: Seq, was_again: bool) {
        self.probe = if was_again { Probe::Again } else { Probe::New };
        self.probe_end = end;
    }

    /// It was answered.
    pub(crate) fn probe_answered(&mut self) {
        self.probe = Probe::None;
    }

    /// Whether new data goes before what counts as lost.
    #[inline]
    pub(crate) fn prefers_new(&self) -> bool {
        self.frto == Frto::SendNew
    }

    /// No new data could leave before `nxt`, so that there is nothing to wait for: what counts as
    /// lost goes first after all. Whether new data was preferred.
    pub(crate) fn give_up_new(&mut self, nxt: Seq) -> bool {
        let is_vain = self.prefers_new() && !nxt.is_after(self.end);
        if is_vain {
            self.frto = Frto::Off;
        }
        is_vain
    }

    /// From now on a fall may be taken back.
    fn remember(&mut self, before: (u32, u32), una: Seq) {
        (self.undo, self.start) = (before, una);
        (self.stamp, self.again) = (0, NONE_AGAIN);
    }

    fn forget(&mut self) {
        (self.undo, self.stamp, self.again) = ((0, 0), 0, NONE_AGAIN);
    }

    fn begin(&mut self, phase: Phase, window: &Window, nxt: Seq) {
        self.phase = phase;
        self.end = nxt;
        self.prior = window.segments.max(1);
        (self.delivered, self.sent) = (0, 0);
        self.probe = Probe::None;
        self.frto = Frto::Off;
    }

    /// A congestion mark was echoed; at most one fall a round trip. Whether this is one.
    pub(crate) fn mark(&mut self, control: &mut Congestion, window: &mut Window, nxt: Seq) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        let threshold = control.reduce(window, Cause::Mark);
        self.begin(Phase::Marked, window, nxt);
        self.forget();
        window.threshold = threshold;
        true
    }

    /// Acknowledgements told of a loss.
    pub(crate) fn lose(
        &mut self,
        control: &mut Congestion,
        window: &mut Window,
        una: Seq,
        nxt: Seq,
    ) {
        match self.phase {
            Phase::Recovery | Phase::Timeout => {}
            // The window is falling already: once a round trip is enough.
            Phase::Marked => self.phase = Phase::Recovery,
            Phase::Open => {
                let before = (window.segments, window.threshold);
                let threshold = control.reduce(window, Cause::Loss);
                self.begin(Phase::Recovery, window, nxt);
                self.remember(before, una);
                window.threshold = threshold;
            }
        }
    }

    /// The retransmission timer fired.
    pub(crate) fn time_out(
        &mut self,
        control: &mut Congestion,
        window: &mut Window,
        (una, nxt): (Seq, Seq),
        is_first: bool,
        may_be_late: bool,
    ) {
        let may_be_late =
            may_be_late && (matches!(self.phase, Phase::Open | Phase::Marked) || !is_first);
        if self.phase != Phase::Timeout || is_first {
            let before = (window.segments, window.threshold);
            // RFC 5681 equation 4: once for what is on its way, and again when something of it is
            // lost that this timer has not sent before; not while the same is lost once more.
            if matches!(self.phase, Phase::Open | Phase::Timeout) {
                window.threshold = control.reduce(window, Cause::Loss);
                self.remember(before, una);
            }
            self.stamp = 0;
            control.timed_out();
        }
        self.begin(Phase::Timeout, window, nxt);
        if may_be_late {
            // RFC 5682 section 2.1 step 1.
            self.frto = Frto::On;
        }
        (window.segments, window.count) = (1, 0);
    }

    /// The path carries less than was thought: what was too long is sent again in pieces. The
    /// window counts segments, so that it has fallen with them already.
    pub(crate) fn recut(&mut self, window: &mut Window, nxt: Seq) {
        if self.phase != Phase::Timeout {
            window.threshold = window.threshold.min(window.segments.max(2));
            self.forget();
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
        if is_again {
            if self.stamp == 0 {
                self.stamp = stamp.max(1);
            }
            self.again = match self.again {
                NONE_AGAIN => 1,
                count => (count + 1).min(MANY_AGAIN),
            };
        }
    }

    /// The peer echoes a timestamp from before anything was sent again, for data that arrived: the
    /// first copies were only late (RFC 3522 section 3.2).
    pub(crate) fn is_late_by(&self, echo: u32) -> bool {
        self.stamp != 0 && echo.wrapping_sub(self.stamp).cast_signed() < 0
    }

    /// The peer says that it has the numbers of `range` twice, in segments of `mss`. Whether it has
    /// all twice that was sent again: then no first copy was lost, whatever the clocks say. What
    /// was sent before the fall does not count, however long the range is that it speaks of.
    pub(crate) fn came_twice(&mut self, (start, end): (Seq, Seq), mss: u16) -> bool {
        let counts = self.undo.0 != 0 && self.again < MANY_AGAIN && end.is_after(self.start);
        if counts {
            let segments = end.since(start.later(self.start)).div_ceil(u32::from(mss).max(1));
            self.again = self.again.saturating_sub(u8::try_from(segments).unwrap_or(u8::MAX));
        }
        counts && self.again == 0
    }

    /// RFC 5682 section 3.1 for an acknowledgement up to `una` that came after a timeout. True:
    /// data that was sent only once has arrived since, so that the timeout was for nothing.
    pub(crate) fn is_for_nothing(
        &mut self,
        delivery: &Delivery,
        is_advance: bool,
        is_repeated: bool,
        (una, nxt): (Seq, Seq),
        has_new: bool,
    ) -> bool {
        if self.phase != Phase::Timeout || self.frto == Frto::Off {
            return false;
        }
        if delivery.original.is_some_and(|end| !end.is_after(self.end)) {
            return true;
        }
        let has_report = delivery.reported > 0 || is_repeated;
        self.frto = match (nxt.is_after(self.end), is_advance && una.is_before(self.end)) {
            (true, _) if has_report => Frto::Off,
            (false, true) if has_new => Frto::SendNew,
            (false, true) => Frto::Off,
            _ => Frto::On,
        };
        false
    }

    /// Nothing was lost: returns to the window of before. Whether there was one.
    pub(crate) fn undo(&mut self, window: &mut Window) -> bool {
        let (segments, threshold) = self.undo;
        if segments == 0 {
            return false;
        }
        window.segments = window.segments.max(segments);
        window.threshold = window.threshold.max(threshold);
        self.phase = Phase::Open;
        self.frto = Frto::Off;
        self.forget();
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
        self.frto = Frto::Off;
        // What came twice may still be told of, so that what to return to is not forgotten yet.
        self.stamp = 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_begins_before_the_fall_counts_what_was_sent_since_and_no_more() {
        let fall = Recovery { undo: (10, 5), start: Seq(10_000), again: 3, ..Recovery::default() };
        let mut lied_to = fall;
        assert!(!lied_to.came_twice((Seq(10_000) - (1 << 30), Seq(11_000)), 1000), "one of three");
        assert_eq!(lied_to.again, 2);
        let mut told = fall;
        assert!(told.came_twice((Seq(10_000), Seq(13_000)), 1000));
    }
}
