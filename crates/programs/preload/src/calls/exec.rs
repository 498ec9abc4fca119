//! A new program in this process, with the environment that has it served.
//!
//! Nothing here takes memory: a child of vfork calls these while its parent waits.

use libc::{c_char, c_int};

use crate::process::again;
use crate::process::environment::{self, Environment};
use crate::process::ticket::{self, Target};
use crate::system::real;

/// execve(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    again::leave_all();
    let ticket = ticket::for_program(Target::At(libc::AT_FDCWD, path, 0), false);
    // SAFETY: the caller's promise.
    let kept = unsafe { Environment::keeping(environment, ticket) };
    // SAFETY: the caller's arguments.
    unsafe { real::execve(path, arguments, kept.as_ptr()) }
}

/// execv(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's arguments and the process's own environment.
    unsafe { execve(path, arguments, environment::own()) }
}

/// execvp(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's arguments and the process's own environment.
    unsafe { execvpe(file, arguments, environment::own()) }
}

/// execvpe(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    again::leave_all();
    let ticket = ticket::for_program(Target::Named(file), false);
    // SAFETY: the caller's promise.
    let kept = unsafe { Environment::keeping(environment, ticket) };
    // SAFETY: the caller's arguments.
    unsafe { real::execvpe(file, arguments, kept.as_ptr()) }
}

/// fexecve(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn fexecve(
    fd: c_int,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    again::leave_all();
    let ticket = ticket::for_program(Target::At(fd, c"".as_ptr(), libc::AT_EMPTY_PATH), false);
    // SAFETY: the caller's promise.
    let kept = unsafe { Environment::keeping(environment, ticket) };
    // SAFETY: the caller's arguments.
    unsafe { real::fexecve(fd, arguments, kept.as_ptr()) }
}

/// execveat(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    flags: c_int,
) -> c_int {
    again::leave_all();
    let ticket = ticket::for_program(Target::At(folder, path, flags), false);
    // SAFETY: the caller's promise.
    let kept = unsafe { Environment::keeping(environment, ticket) };
    // SAFETY: the caller's arguments.
    unsafe { real::execveat(folder, path, arguments, kept.as_ptr(), flags) }
}
