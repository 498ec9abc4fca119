//! What every step of the dispatcher stands on: the frames and the counters.

use base::Nanos;
use shm::{Frame, FramePool};
use sys::trace;

use crate::counters::{CounterId, CounterWriter};

/// Lent to each step, so that a dropped packet always goes home and is always counted.
pub(crate) struct DispatchContext<'a> {
    pub(crate) pool: &'a mut FramePool,
    pub(crate) counters: &'a mut CounterWriter,
    pub(crate) now: Nanos,
}

impl DispatchContext<'_> {
    /// The end of a packet that goes no further.
    #[inline]
    pub(crate) fn drop(&mut self, frame: Frame, reason: impl Into<CounterId>) {
        let reason = reason.into();
        trace::packet_dropped(reason.index());
        self.counters.add(reason, 1);
        self.pool.give(frame);
    }
}
