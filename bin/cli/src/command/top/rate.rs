//! Rates from counters, and their recent past.

use std::collections::VecDeque;

use base::Nanos;

/// Values kept: more than the widest screen has columns.
const KEPT: usize = 512;

/// Events a second, if `after` can be later than `before`: a counter that went back is another
/// counter, and so nothing is known.
pub(super) fn per_second(before: u64, after: u64, span: Nanos) -> Option<f64> {
    let seconds = span.as_secs_f64();
    (seconds > 0.0).then_some(())?;
    Some(after.checked_sub(before)? as f64 / seconds)
}

/// The latest values of something, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    values: VecDeque<f64>,
}

impl History {
    /// Adds the latest value; the oldest one makes room for it.
    pub(super) fn push(&mut self, value: f64) {
        if self.values.len() == KEPT {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// The latest values first, at most `count`.
    pub(super) fn latest(&self, count: usize) -> impl Iterator<Item = f64> {
        self.values.iter().rev().take(count).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_difference_over_the_time_between() {
        assert_eq!(per_second(100, 350, Nanos::from_millis(500)), Some(500.0));
        assert_eq!(per_second(7, 7, Nanos::from_secs(1)), Some(0.0));
    }

    #[test]
    fn a_counter_that_went_back_or_no_time_at_all_gives_no_rate() {
        assert_eq!(per_second(8, 7, Nanos::from_secs(1)), None);
        assert_eq!(per_second(7, 8, Nanos::ZERO), None);
    }

    #[test]
    fn a_history_forgets_its_oldest_values() {
        let mut history = History::default();
        for value in 0..KEPT + 3 {
            history.push(value as f64);
        }
        let latest: Vec<f64> = history.latest(usize::MAX).collect();
        assert_eq!((latest.len(), latest[0]), (KEPT, (KEPT + 2) as f64));
        assert_eq!(latest[KEPT - 1], 3.0);
    }
}
