//! A request that the daemon samples: when it was read, and when it was answered.

use std::sync::atomic::Ordering;

use super::slot::Slot;

impl Slot<'_> {
    /// The first bytes of a sample are about to be read.
    #[cold]
    pub(super) fn note_read(&self, sample: u32) {
        let words = self.words;
        if words.trace_read.load(Ordering::Relaxed) != sample {
            words.trace_read_nanos.store(sys::clock::now().0, Ordering::Relaxed);
            words.trace_read.store(sample, Ordering::Release);
        }
    }

    /// Something was written after that, and is about to be shown.
    #[cold]
    pub(super) fn note_written(&self, sample: u32) {
        let words = self.words;
        if words.trace_read.load(Ordering::Acquire) == sample
            && words.trace_written.load(Ordering::Relaxed) != sample
        {
            words.trace_written_nanos.store(sys::clock::now().0, Ordering::Relaxed);
            // Release: who sees the number sees both moments.
            words.trace_written.store(sample, Ordering::Release);
        }
    }
}
