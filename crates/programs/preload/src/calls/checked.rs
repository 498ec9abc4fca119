//! read(2) and its kin as programs call them that were built to check their buffers.

use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};

use crate::calls::receive;
use crate::entry::descriptors;
use crate::system::real;

/// read(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn read(fd: c_int, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t {
    if bytes > room || descriptors::is_plain(fd) {
        // SAFETY: the caller's arguments; libc ends the program if they do not fit.
        return unsafe { real::__read_chk(fd, buffer, bytes, room) };
    }
    // SAFETY: the caller's arguments.
    unsafe { receive::read(fd, buffer, bytes) }
}

/// recv(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn recv(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if bytes > room || descriptors::is_plain(fd) {
        // SAFETY: the caller's arguments; libc ends the program if they do not fit.
        return unsafe { real::__recv_chk(fd, buffer, bytes, room, flags) };
    }
    // SAFETY: the caller's arguments.
    unsafe { receive::recv(fd, buffer, bytes, flags) }
}

/// recvfrom(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_bytes: *mut socklen_t,
) -> ssize_t {
    if bytes > room || descriptors::is_plain(fd) {
        // SAFETY: the caller's arguments; libc ends the program if they do not fit.
        return unsafe {
            real::__recvfrom_chk(fd, buffer, bytes, room, flags, address, address_bytes)
        };
    }
    // SAFETY: the caller's arguments.
    unsafe { receive::recvfrom(fd, buffer, bytes, flags, address, address_bytes) }
}
