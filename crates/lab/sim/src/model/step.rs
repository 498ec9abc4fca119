//! The load over time: steps, ramps, shifts.

use base::Nanos;

/// A stretch of time with one rate an application.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Packets a second, by application; what a batch job has here means nothing.
    pub rates: Vec<f64>,
    /// How long.
    pub length: Nanos,
    /// Workers that may be given flows from its begin on, by application, as an operator sets them;
    /// empty: as before.
    pub workers: Vec<u16>,
}

impl Step {
    /// A step with these rates.
    pub fn new(length: Nanos, rates: impl Into<Vec<f64>>) -> Self {
        Self { rates: rates.into(), length, workers: Vec::new() }
    }

    /// The same with that many workers for each application.
    #[must_use]
    pub fn with_workers(self, workers: impl Into<Vec<u16>>) -> Self {
        Self { workers: workers.into(), ..self }
    }

    /// One application's rate from `from` to `to` in `pieces` equal steps of the whole `length`;
    /// the first has the rate `from`, the last one `to`.
    pub fn ramp(length: Nanos, from: f64, to: f64, pieces: u32) -> Vec<Self> {
        let piece = Nanos(length.0 / u64::from(pieces.max(1)));
        let last = f64::from(pieces.saturating_sub(1).max(1));
        let rate = |at| from + (to - from) * f64::from(at) / last;
        (0..pieces).map(|at| Self::new(piece, [rate(at)])).collect()
    }

    /// The same load in pieces of at most `length`, so that the outcome shows how things went over
    /// time.
    pub fn sliced(&self, length: Nanos) -> Vec<Self> {
        let count = self.length.0.div_ceil(length.0.max(1)).max(1);
        let piece = |at: u64| {
            let workers = if at == 0 { self.workers.clone() } else { Vec::new() };
            let left = Nanos(self.length.0 - at * length.0);
            Self { rates: self.rates.clone(), length: left.min(length), workers }
        };
        (0..count).map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_begins_and_ends_where_it_is_told() {
        let ramp = Step::ramp(Nanos::from_secs(1), 100.0, 500.0, 5);
        let rates: Vec<f64> = ramp.iter().map(|step| step.rates[0]).collect();
        assert_eq!(rates, [100.0, 200.0, 300.0, 400.0, 500.0]);
        assert!(ramp.iter().all(|step| step.length == Nanos::from_millis(200)));
    }

    #[test]
    fn slices_are_as_long_as_the_whole_and_set_the_workers_once() {
        let step = Step::new(Nanos(1050), [7.0, 9.0]).with_workers([2, 3]);
        let slices = step.sliced(Nanos(100));
        assert_eq!(slices.iter().map(|slice| slice.length.0).sum::<u64>(), 1050);
        assert_eq!((slices.len(), slices[10].length), (11, Nanos(50)));
        assert!(slices.iter().all(|slice| slice.rates == step.rates));
        assert!(slices[0].workers == [2, 3] && slices[1].workers.is_empty());
    }
}
