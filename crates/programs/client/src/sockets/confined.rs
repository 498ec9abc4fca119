//! Processes that have locked themselves in with seccomp(2): a system call that their filter does
//! not expect may be their end.
//!
//! From then on the daemon is asked nothing, no thread gives its CPU away, and no poller is made.
//! What goes on is what goes through memory: a doorbell is written to, and a thread that waits
//! sleeps in futex(2) or ppoll(2), as libc's own locks and the program's own waits do.

use std::sync::atomic::{AtomicBool, Ordering};

use super::lock;

static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// The calling thread is about to install a filter: what it needs and can be had only by a system
/// call is had now.
pub fn prepare_to_be_confined() {
    lock::know_own_number();
}

/// This process has a filter from now on, which may expect nothing but what the program itself
/// does. Its forked children have it too.
pub fn note_confined() {
    IS_CONFINED.store(true, Ordering::Release);
}

/// Whether [`note_confined`] was called.
#[inline]
pub fn is_confined() -> bool {
    IS_CONFINED.load(Ordering::Acquire)
}
