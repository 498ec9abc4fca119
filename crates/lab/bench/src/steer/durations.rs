//! How long the turns of a data loop take.

use base::Nanos;
use load::Latencies;

/// What the issue allows a policy change to take the data loop away.
pub(super) const STALL: Nanos = Nanos::from_micros(100);

/// Durations of the data loop's turns.
#[derive(Default)]
pub(super) struct Durations {
    pub(super) turns: Latencies,
    pub(super) longest: Nanos,
    /// Longer than [`STALL`] by the clock.
    pub(super) long: u64,
    /// Longer than [`STALL`] by the thread's own CPU time.
    pub(super) long_of_own: u64,
    /// The longest of those, and packets that left the hold queue in it.
    pub(super) worst_own: (Nanos, usize),
}

impl Durations {
    pub(super) fn note(&mut self, length: Nanos) {
        self.turns.record(length);
        self.longest = self.longest.max(length);
    }
}
