//! The place of one function of libc: empty until its first call, then the function's address.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_long, c_void};
use rustix::io::Errno;

use crate::system::{outcome, raw};

/// The number of functions that are no system call.
pub(crate) const NO_NUMBER: c_long = -1;

/// Marks a function that libc does not have.
const ABSENT: *mut c_void = std::ptr::without_provenance_mut(1);

thread_local! {
    static IS_LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// The place of one function.
pub(crate) struct FunctionCell(AtomicPtr<c_void>);

impl FunctionCell {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The function, if it has been found already.
    #[inline]
    pub(crate) fn known(&self) -> Option<*mut c_void> {
        let known = self.0.load(Ordering::Relaxed);
        (known.addr() > ABSENT.addr()).then_some(known)
    }

    /// The function; `None` if there is none, or while this thread is looking one up.
    pub(crate) fn find(&self, name: &'static CStr) -> Option<*mut c_void> {
        if self.0.load(Ordering::Relaxed) == ABSENT || IS_LOOKING.replace(true) {
            return None;
        }
        // SAFETY: the name ends in a zero byte. Threads that look at once find the same.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        IS_LOOKING.set(false);
        self.0.store(if found.is_null() { ABSENT } else { found }, Ordering::Relaxed);
        (!found.is_null()).then_some(found)
    }
}

/// Does by the kernel alone what a function of libc would have done.
///
/// # Safety
/// As for the function.
#[cold]
pub(crate) unsafe fn without_libc(number: c_long, arguments: [usize; 6]) -> isize {
    if number == NO_NUMBER {
        return outcome::failed(Errno::NOSYS);
    }
    // SAFETY: the caller's promise.
    match unsafe { raw::checked(number, arguments) } {
        Ok(value) => value as isize,
        Err(errno) => outcome::failed(errno),
    }
}
