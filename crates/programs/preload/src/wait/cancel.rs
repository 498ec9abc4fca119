//! Cancellation of threads: a thread that waits in one of our calls ends as it would in libc's.
//!
//! libc sends a signal only to a thread that it knows to be in one of its own waits. Ours get the
//! same signal from here; its handler finds nothing to do, the wait is interrupted, and the thread
//! asks.

use std::time::Duration;

/// A thread that began to sleep just after the signal asks again after this time.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Ends the thread if another one has asked for that. Everything that is held on the way is let go.
pub(crate) fn point() {
    // SAFETY: it returns, or unwinds the stack as an exception does; all callers up to the program
    // are functions that exceptions may leave.
    unsafe { pthread_testcancel() };
}
