//! The process: its birth, its children, and how we tell a child of vfork from its parent.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void};

use crate::real;
use crate::{adopt, exec, lock, raw, session};

/// The process that the tables here belong to.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// How often this process has made another one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What the loader calls before the program's own code.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    PROCESS.store(raw::process_id(), Ordering::Relaxed);
    // SAFETY: three functions that live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    exec::remember_environment();
    adopt::look_for_inherited();
}

unsafe extern "C" fn before_fork() {
    will_fork();
    lock::close_gate();
}

unsafe extern "C" fn after_fork() {
    lock::open_gate();
}

unsafe extern "C" fn in_child() {
    PROCESS.store(raw::process_id(), Ordering::Relaxed);
    lock::open_gate();
    session::in_child();
}

/// This process, as the tables here know it.
pub(crate) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// How often this process has made another one: sockets older than the last of them may be held by it.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Another process is about to be made, by whatever means.
pub(crate) fn will_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Whether the caller runs in a child that shares our memory but not our descriptors (vfork), so that
/// nothing that it does to its descriptors may be noted here.
pub(crate) fn is_borrowed() -> bool {
    raw::process_id() != PROCESS.load(Ordering::Relaxed)
}

/// clone(2): a new process, unless it is a thread.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn clone(
    run: *mut c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_void,
    tls: *mut c_void,
    child_tid: *mut c_void,
) -> c_int {
    if flags & libc::CLONE_THREAD == 0 {
        will_fork();
    }
    // SAFETY: the caller's arguments.
    unsafe { real::clone(run, stack, flags, argument, parent_tid, tls, child_tid) }
}
