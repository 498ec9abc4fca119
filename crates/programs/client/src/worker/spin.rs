//! How long a worker looks before it sleeps.

use base::Nanos;
use sched::WaitConfig;

/// Answers that the ring had no room for are offered again this often.
pub(crate) const UNSENT_RETRY: Nanos = Nanos::from_millis(1);

/// Spins for as long as it pays, but no longer than `most`.
pub(crate) fn spinning(most: Nanos) -> WaitConfig {
    WaitConfig { spin_share_max: 1000, spin_max: most, ..WaitConfig::default() }
}
