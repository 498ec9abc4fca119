//! NewReno: one segment more a round trip, half at a loss (RFC 5681, RFC 6582).

use super::{Cause, Control, Report, Window};

/// It has no state of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewReno;

impl Control for NewReno {
    fn reduce(&mut self, window: &Window, _cause: Cause) -> u32 {
        window.segments / 2
    }

    #[inline]
    fn acknowledged(&mut self, window: &mut Window, report: &Report) {
        let mut acked = report.acked;
        if window.is_in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 && !window.is_in_slow_start() {
            window.grow(acked, window.segments);
        }
    }
}
