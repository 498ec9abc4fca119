//! How a call of C ends: a value, or -1 and `errno`.

use libc::{c_int, ssize_t};
use rustix::io::Errno;

/// What functions of C can return.
pub(crate) trait Returned {
    /// -1, which means: look at errno.
    const FAILED: Self;
}

impl Returned for c_int {
    const FAILED: Self = -1;
}

impl Returned for ssize_t {
    const FAILED: Self = -1;
}

/// Sets errno and gives -1.
pub(crate) fn failed<T: Returned>(errno: Errno) -> T {
    // SAFETY: the location is the calling thread's own and lives as long as it.
    unsafe { *libc::__errno_location() = errno.raw_os_error() };
    T::FAILED
}

/// The end of a call that transfers bytes.
pub(crate) fn bytes(result: Result<usize, Errno>) -> ssize_t {
    match result {
        Ok(count) => count as ssize_t,
        Err(errno) => failed(errno),
    }
}

/// The end of a call that returns a small number, or zero.
pub(crate) fn number(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(failed)
}

/// The end of a call that returns nothing.
pub(crate) fn done(result: Result<(), Errno>) -> c_int {
    number(result.map(|()| 0))
}

/// What a signal's handler is told whose call meets one of its own thread in the same direction:
/// that one does not go on while the handler waits.
pub(crate) fn in_handler(errno: Errno) -> Errno {
    if errno == Errno::DEADLK { Errno::AGAIN } else { errno }
}

/// The error that the last failed function of libc left.
pub(crate) fn last_errno() -> Errno {
    // SAFETY: the location is the calling thread's own.
    match unsafe { *libc::__errno_location() } {
        errno @ 1..=4095 => Errno::from_raw_os_error(errno),
        _ => Errno::IO,
    }
}

/// Runs what must leave errno as it is: a call that has succeeded does.
pub(crate) fn unheard<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: the location is the calling thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let result = run();
    // SAFETY: likewise.
    unsafe { *libc::__errno_location() = errno };
    result
}

/// What a function of libc returned, as a result.
pub(crate) fn of(returned: c_int) -> Result<c_int, Errno> {
    if returned < 0 { Err(last_errno()) } else { Ok(returned) }
}

/// The same for a function that transfers bytes.
pub(crate) fn of_bytes(returned: ssize_t) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| last_errno())
}
