//! liburing's functions that make a ring: refused, as io_uring_setup(2) is by number.
//!
//! A ring reads and writes descriptors without passing by here. liburing makes its system calls
//! itself, so its functions stand here by their names; a program that has it linked statically, or
//! makes the call itself, is not seen.

use libc::{c_int, c_uint, c_void, size_t};
use rustix::io::Errno;

/// What liburing's functions return for an error: the negative number, without errno.
const REFUSED: c_int = -Errno::NOSYS.raw_os_error();

/// `io_uring_setup` of liburing.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn io_uring_setup(_entries: c_uint, _parameters: *mut c_void) -> c_int {
    REFUSED
}

/// `io_uring_queue_init` of liburing.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn io_uring_queue_init(_: c_uint, _ring: *mut c_void, _flags: c_uint) -> c_int {
    REFUSED
}

/// `io_uring_queue_init_params` of liburing.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn io_uring_queue_init_params(
    _entries: c_uint,
    _ring: *mut c_void,
    _parameters: *mut c_void,
) -> c_int {
    REFUSED
}

/// `io_uring_queue_init_mem` of liburing.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn io_uring_queue_init_mem(
    _entries: c_uint,
    _ring: *mut c_void,
    _parameters: *mut c_void,
    _memory: *mut c_void,
    _bytes: size_t,
) -> c_int {
    REFUSED
}

/// `io_uring_queue_init_try_nosqarr` of liburing.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn io_uring_queue_init_try_nosqarr(
    _entries: c_uint,
    _ring: *mut c_void,
    _parameters: *mut c_void,
    _memory: *mut c_void,
    _bytes: size_t,
) -> c_int {
    REFUSED
}

/// `io_uring_get_probe` of liburing: by a ring of its own it asks what rings can do.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn io_uring_get_probe() -> *mut c_void {
    std::ptr::null_mut()
}
