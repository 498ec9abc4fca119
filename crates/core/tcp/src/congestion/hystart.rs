//! HyStart: ends slow start before it ends in a flood of losses (Ha and Rhee, 2011; RFC 9406), with
//! the limits that Linux gives it.
//!
//! Two signs say that a path is full: acknowledgements that follow each other closely for as long
//! as half a round trip, and round trips that have become longer than the shortest.

use super::{Sample, Window};
use crate::Seq;

/// State of the present round. Times are microseconds, and wrap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HyStart {
    round_start_us: u32,
    last_ack_us: u32,
    /// The round is over when this number is acknowledged; none: no round has begun.
    round_end: Option<Seq>,
    /// Shortest round trip of all; zero: none yet.
    shortest_us: u32,
    /// Shortest round trip of this round.
    present_us: u32,
    samples: u8,
    is_done: bool,
}

/// Below it slow start does no harm.
const WINDOW_MIN: u32 = 16;
/// Samples of a round before its round trip counts.
const SAMPLES_MIN: u8 = 8;
/// Acknowledgements no farther apart belong to one train.
const TRAIN_GAP_US: u32 = 2_000;
/// An eighth of the shortest round trip counts as longer, but not less, nor more, than that.
const LONGER_US: std::ops::RangeInclusive<u32> = 4_000..=16_000;

impl HyStart {
    /// Takes a round trip in, and ends slow start if the path is full.
    #[inline]
    pub(crate) fn measured(&mut self, window: &mut Window, sample: &Sample) {
        if self.is_done {
            return;
        }
        let round_trip_us = sample.round_trip_us;
        if self.shortest_us == 0 || round_trip_us < self.shortest_us {
            self.shortest_us = round_trip_us;
        }
        if window.segments < WINDOW_MIN || !window.is_in_slow_start() {
            // It may be long until the next one, and a number that is kept until then means
            // nothing.
            self.round_end = None;
            return;
        }
        // It wraps after 71 minutes; only differences of less count.
        let now_us = (sample.now.0 / 1000) as u32;
        if self.round_end.is_none_or(|end| sample.una.is_after(end)) {
            (self.round_start_us, self.last_ack_us) = (now_us, now_us);
            self.round_end = Some(sample.nxt);
            (self.present_us, self.samples) = (u32::MAX, 0);
        }
        let mut is_full = false;
        if now_us.wrapping_sub(self.last_ack_us) <= TRAIN_GAP_US {
            self.last_ack_us = now_us;
            is_full = now_us.wrapping_sub(self.round_start_us) > self.shortest_us / 2;
        }
        self.present_us = self.present_us.min(round_trip_us);
        if self.samples < SAMPLES_MIN {
            self.samples += 1;
        } else {
            let (low, high) = LONGER_US.into_inner();
            let longer = (self.shortest_us / 8).clamp(low, high);
            is_full |= self.present_us > self.shortest_us.saturating_add(longer);
        }
        if is_full {
            self.is_done = true;
            window.threshold = window.segments;
        }
    }
}
