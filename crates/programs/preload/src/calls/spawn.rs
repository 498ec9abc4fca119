//! Other ways to start a program or a process: libc forks inside them, unseen, so they are noted
//! here.

use libc::{c_char, c_int, c_void, pid_t};

use crate::process::environment::Environment;
use crate::process::ticket::{self, Target};
use crate::system::{fork, real};

/// posix_spawn(3): the new program is served as this one is.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    fork::will_fork();
    let ticket = ticket::for_program(Target::At(libc::AT_FDCWD, path, 0), !actions.is_null());
    // SAFETY: the caller's promise.
    let kept = unsafe { Environment::keeping(environment.cast(), ticket) };
    // SAFETY: the caller's arguments, and an environment that lives until the call is over.
    unsafe { real::posix_spawn(pid, path, actions, attributes, arguments, kept.as_ptr().cast()) }
}

/// posix_spawnp(3): the new program is served as this one is.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    fork::will_fork();
    let ticket = ticket::for_program(Target::Named(file), !actions.is_null());
    // SAFETY: the caller's promise.
    let kept = unsafe { Environment::keeping(environment.cast(), ticket) };
    // SAFETY: the caller's arguments, and an environment that lives until the call is over.
    unsafe { real::posix_spawnp(pid, file, actions, attributes, arguments, kept.as_ptr().cast()) }
}

/// system(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn system(command: *const c_char) -> c_int {
    fork::will_fork();
    // SAFETY: the caller's argument.
    unsafe { real::system(command) }
}

/// popen(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
    fork::will_fork();
    // SAFETY: the caller's arguments.
    unsafe { real::popen(command, mode) }
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
        fork::will_fork();
    }
    // SAFETY: the caller's arguments.
    unsafe { real::clone(run, stack, flags, argument, parent_tid, tls, child_tid) }
}
