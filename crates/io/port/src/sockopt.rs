//! getsockopt and setsockopt with plain structures.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// A structure that an option takes or gives.
///
/// # Safety
/// `repr(C)` or a number, no pointers that the kernel would follow, every bit pattern valid.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: a number.
unsafe impl Plain for libc::c_int {}

/// Sets an option.
pub(crate) fn set<T: Plain>(
    fd: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let raw = fd.as_fd().as_raw_fd();
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for `len` bytes and the kernel only reads them.
    let result =
        unsafe { libc::setsockopt(raw, level, option, std::ptr::from_ref(value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Reads an option. What an older kernel does not know stays zero.
pub(crate) fn get<T: Plain + Default>(
    fd: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
) -> Result<T, Errno> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    let raw = fd.as_fd().as_raw_fd();
    // SAFETY: `value` is valid for `len` bytes, and any bytes are a valid `T`.
    let result = unsafe {
        libc::getsockopt(raw, level, option, std::ptr::from_mut(&mut value).cast(), &raw mut len)
    };
    if result == 0 { Ok(value) } else { Err(last_errno()) }
}

/// The errno that the last failed libc call of this thread left.
pub(crate) fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
