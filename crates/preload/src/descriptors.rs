//! What each descriptor number of this process is to us: a word per number, read without a lock.

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

/// Descriptors from this number on are the kernel's, always: no program that the data plane serves has
/// so many.
pub(crate) const DESCRIPTORS_MAX: usize = 1 << 20;

/// 8 MiB of addresses, of which only the pages that are used cost memory.
static WORDS: [AtomicUsize; DESCRIPTORS_MAX] = [const { AtomicUsize::new(PLAIN) }; DESCRIPTORS_MAX];

/// A descriptor that we have nothing to do with.
const PLAIN: usize = 0;

/// Whether a descriptor is the kernel's alone.
#[inline]
pub(crate) fn is_plain(fd: c_int) -> bool {
    // A negative number becomes one beyond the array, and the kernel's to refuse.
    WORDS.get(fd as usize).is_none_or(|word| word.load(Ordering::Acquire) == PLAIN)
}
