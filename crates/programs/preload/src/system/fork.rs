//! Which process this is, how many it has made, and how we tell a child of vfork from its parent.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Whether the caller runs in a child that shares our memory but not our descriptors (vfork), so
/// that nothing that it does to its descriptors may be noted here.
pub(crate) fn is_borrowed() -> bool {
    !is_confined() && raw::process_id() != PROCESS.load(Ordering::Relaxed)
}
