//! What all flows of an engine share, and what a function gets that acts on one of them.

use base::Nanos;

use crate::cold::Cold;
use crate::flow::Flow;
use crate::pool::Pool;
use crate::reassembly::Range;
use crate::scoreboard::Sent;
use crate::secret::Secret;
use crate::{Config, Counters};

/// Records of segments on their way that each flow may have, whatever others hold: the first flight
/// of RFC 6928, and some to spare.
pub(crate) const SENT_FLOOR: u32 = 16;
/// Out-of-order ranges that each flow may have, whatever others hold: as many as a SACK option
/// names.
pub(crate) const RANGES_FLOOR: u32 = 4;
/// A record counts as this many bytes of the send ring or more, as Linux counts buffer overhead:
/// with a tiny MSS, or with tiny messages, a flow has fewer bytes on their way, not more records.
const RECORD_BYTES_LOG2: u8 = 8;

/// Records of segments on their way.
pub(crate) type SentPool = Pool<Sent, SENT_FLOOR>;
/// Out-of-order ranges.
pub(crate) type RangePool = Pool<Range, RANGES_FLOOR>;

/// Settings, memory, counters.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// No timeout of a single segment is shorter.
    pub(crate) rto_floor: Nanos,
    pub(crate) secret: Secret,
    pub(crate) sent: SentPool,
    pub(crate) ranges: RangePool,
    pub(crate) counters: Counters,
    /// Segments that belong to nothing are not answered: see [`crate::Engine::be_silent`].
    pub(crate) is_silent: bool,
}

impl Shared {
    /// Whether the flow may have another segment on its way, as far as memory goes: see
    /// [`Config::sent_max`].
    #[inline]
    pub(crate) const fn may_send(&self, flow: &Flow, cold: &Cold) -> bool {
        let len = flow.sent.len();
        len < SENT_FLOOR
            || (len - SENT_FLOOR < cold.send_ring() >> RECORD_BYTES_LOG2
                && self.sent.may_grow(&flow.sent))
    }
}

/// One call into the engine: its time, and the caller's memory.
pub(crate) struct Turn<'a, B, O> {
    pub(crate) now: Nanos,
    pub(crate) shared: &'a mut Shared,
    pub(crate) buffers: &'a mut B,
    pub(crate) out: &'a mut O,
}
