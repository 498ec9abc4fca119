//! DCTCP: the window falls by the share of segments that routers marked (RFC 8257).

use super::{Cause, Control, NewReno, Report, Window};
use crate::Seq;

/// The share as it is estimated, and the counts of the present window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dctcp {
    /// Estimated share of marked segments, in 1/1024.
    alpha: u32,
    delivered: u32,
    marked: u32,
    /// The estimate is renewed when this number is acknowledged: once a round trip.
    window_end: Option<Seq>,
}

const ONE: u32 = 1024;
/// The newest window weighs 1/16 (RFC 8257 section 4.2).
const GAIN_SHIFT: u32 = 4;

impl Default for Dctcp {
    fn default() -> Self {
        // RFC 8257 section 3.3: cautious until something is known.
        Self { alpha: ONE, delivered: 0, marked: 0, window_end: None }
    }
}

impl Control for Dctcp {
    fn reduce(&mut self, window: &Window, cause: Cause) -> u32 {
        match cause {
            Cause::Loss => window.segments / 2,
            Cause::Mark => {
                let cut = u64::from(window.segments) * u64::from(self.alpha) / u64::from(2 * ONE);
                window.segments - u32::try_from(cut).unwrap_or(window.segments / 2)
            }
        }
    }

    #[inline]
    fn acknowledged(&mut self, window: &mut Window, report: &Report) {
        NewReno.acknowledged(window, report);
    }

    #[inline]
    fn observe(&mut self, delivered: u32, is_marked: bool, snd_una: Seq, snd_nxt: Seq) {
        if delivered == 0 {
            // It says nothing of the path, so no window begins with it either.
            return;
        }
        self.delivered = self.delivered.saturating_add(delivered);
        if is_marked {
            self.marked = self.marked.saturating_add(delivered);
        }
        let is_over = self.window_end.is_none_or(|end| !snd_una.is_before(end));
        if !is_over {
            return;
        }
        let share = u64::from(self.marked) * u64::from(ONE) / u64::from(self.delivered);
        let share = u32::try_from(share).unwrap_or(ONE).min(ONE);
        // What rounding would keep above zero for ever is dropped.
        let decay = (self.alpha >> GAIN_SHIFT).max(u32::from(self.alpha > 0));
        self.alpha = (self.alpha - decay + (share >> GAIN_SHIFT)).min(ONE);
        (self.delivered, self.marked, self.window_end) = (0, 0, Some(snd_nxt));
    }
}

#[cfg(test)]
impl Dctcp {
    pub(super) fn alpha(&self) -> u32 {
        self.alpha
    }
}
