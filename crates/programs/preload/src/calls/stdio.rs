//! Streams of stdio over sockets of ours: libc's own calls never pass by here, so the stream gets
//! ours.

use std::ffi::CStr;

use libc::{c_char, c_int, c_void, off64_t, size_t, ssize_t};
use rustix::io::Errno;

use crate::calls::{close, receive, send};
use crate::process::lookup;
use crate::system::{outcome, real};

#[repr(C)]
struct CookieFunctions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int>,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(
        cookie: *mut c_void,
        mode: *const c_char,
        functions: CookieFunctions,
    ) -> *mut c_void;
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// fdopen(3). The stream reads and writes by us; it has no descriptor that fileno(3) could tell.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void {
    if lookup::socket(fd).is_none() || mode.is_null() {
        // SAFETY: the caller's arguments.
        return unsafe { real::fdopen(fd, mode) };
    }
    let functions = CookieFunctions { read: take, write: put, seek: None, close: end };
    // SAFETY: the caller's promise: a text.
    let name = unsafe { CStr::from_ptr(mode) };
    let cookie = std::ptr::without_provenance_mut(fd as usize);
    // SAFETY: the functions live as long as the library.
    unsafe { fopencookie(cookie, name.as_ptr(), functions) }
}

unsafe extern "C" fn take(cookie: *mut c_void, to: *mut c_char, bytes: size_t) -> ssize_t {
    // SAFETY: stdio's own buffer.
    unsafe { receive::read(cookie.addr() as c_int, to.cast(), bytes) }
}

unsafe extern "C" fn put(cookie: *mut c_void, from: *const c_char, bytes: size_t) -> ssize_t {
    // Zero says that it failed.
    // SAFETY: stdio's own buffer.
    unsafe { send::write(cookie.addr() as c_int, from.cast(), bytes) }.max(0)
}

unsafe extern "C" fn end(cookie: *mut c_void) -> c_int {
    // SAFETY: a plain number.
    unsafe { close::close(cookie.addr() as c_int) }
}

/// vdprintf(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    let mut text: *mut c_char = std::ptr::null_mut();
    // SAFETY: the caller's arguments; the text is ours to free.
    let bytes = unsafe { vasprintf(&raw mut text, format, arguments) };
    let Ok(count) = usize::try_from(bytes) else { return outcome::failed(Errno::NOMEM) };
    // SAFETY: that many bytes were written there.
    let sent = unsafe { send::write(fd, text.cast(), count) };
    // SAFETY: vasprintf has taken it from malloc.
    unsafe { libc::free(text.cast()) };
    sent as c_int
}

/// vdprintf(3) as programs call it that were built to check their formats.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn vdprintf_checked(
    fd: c_int,
    _flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { vdprintf(fd, format, arguments) }
}
