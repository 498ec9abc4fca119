//! What all flows of an engine share, and what a function gets that acts on one of them.

use base::Nanos;

use crate::pool::Pool;
use crate::reassembly::Range;
use crate::scoreboard::Sent;
use crate::secret::Secret;
use crate::{Config, Counters};

/// Settings, memory, counters.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// No timeout of a single segment is shorter.
    pub(crate) rto_floor: Nanos,
    pub(crate) secret: Secret,
    pub(crate) sent: Pool<Sent>,
    pub(crate) ranges: Pool<Range>,
    pub(crate) counters: Counters,
}

/// One call into the engine: its time, and the caller's memory.
pub(crate) struct Turn<'a, B, O> {
    pub(crate) now: Nanos,
    pub(crate) shared: &'a mut Shared,
    pub(crate) buffers: &'a mut B,
    pub(crate) out: &'a mut O,
}
