//! Which process this is, how many it has made, and how we tell a child of vfork from its parent.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use calisto_client::sockets::is_confined;

use crate::system::raw;

/// The process that the tables here belong to.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// How often this process has made another one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The tables here belong to the calling process from now on: it has just begun, or is a fork's
/// child.
pub(crate) fn note_process() {
    PROCESS.store(raw::process_id(), Ordering::Relaxed);
    if let Some(mark) = mark() {
        mark.store(1, Ordering::Relaxed);
    }
}

/// A number that is 1, but in a process that has a copy of our memory and was made without the C
/// library (fork(2) by number), where it is 0: the kernel wipes its page (MADV_WIPEONFORK).
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

fn mark() -> Option<&'static AtomicU32> {
    // SAFETY: null, or a number in a page of ours, which is never given back.
    if let Some(mark) = unsafe { MARK.load(Ordering::Acquire).as_ref() } {
        return Some(mark);
    }
    const PAGE: usize = 4096;
    let (read_write, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new page, at a place of the kernel's choice.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, read_write, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: it is ours.
    if unsafe { libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) } != 0 {
        return None;
    }
    MARK.store(page.cast(), Ordering::Release);
    // SAFETY: a page of zeros is a number, and is aligned for it.
    unsafe { page.cast::<AtomicU32>().as_ref() }
}

/// This process, as the tables here know it.
pub(crate) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// How often this process has made another one: sockets older than the last of them may be held by
/// it.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Another process is about to be made, by whatever means.
pub(crate) fn will_fork() {
    if let Some(before) = BEFORE.get() {
        before();
    }
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// See [`before_each`].
static BEFORE: OnceLock<fn()> = OnceLock::new();

/// Has something done before each other process is made.
pub(crate) fn before_each(before: fn()) {
    let _ = BEFORE.set(before);
}

/// Whether the caller runs in a child of vfork, whose notes would be its parent's.
pub(crate) fn shares_memory() -> bool {
    // SAFETY: as in `mark`.
    let mark = unsafe { MARK.load(Ordering::Acquire).as_ref() };
    is_borrowed() && mark.is_none_or(|mark| mark.load(Ordering::Relaxed) == 1)
}

/// Whether the caller runs in a child that shares our memory but not our descriptors (vfork), so
/// that nothing that it does to its descriptors may be noted here; or in one that was made without
/// the C library, of which nobody here has been told.
pub(crate) fn is_borrowed() -> bool {
    !is_confined() && raw::process_id() != PROCESS.load(Ordering::Relaxed)
}
