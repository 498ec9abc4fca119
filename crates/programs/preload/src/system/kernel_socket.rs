//! What the kernel says of one of its sockets.

use calisto_client::sockets::is_confined;
use libc::{c_int, c_void, socklen_t};

use crate::system::real;

/// The family of an internet socket of the ordinary protocol, and whether it is TCP's. In a process
/// that has locked itself in every further socket is the kernel's: it is not asked.
pub(crate) fn kind_of(fd: c_int) -> Option<(c_int, bool)> {
    if is_confined() {
        return None;
    }
    let family = number(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)?;
    if family != libc::AF_INET && family != libc::AF_INET6 {
        return None;
    }
    let protocol = number(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)?;
    match (number(fd, libc::SOL_SOCKET, libc::SO_TYPE)?, protocol) {
        (libc::SOCK_STREAM, libc::IPPROTO_TCP) => Some((family, true)),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP) => Some((family, false)),
        _ => None,
    }
}

/// Whether it is a stream of bytes.
pub(crate) fn is_stream(fd: c_int) -> bool {
    number(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

/// Fills `value` with an option of any length; how many bytes it has.
pub(crate) fn fill_up_to(fd: c_int, level: c_int, name: c_int, value: &mut [u8]) -> usize {
    let mut bytes = value.len() as socklen_t;
    let to = value.as_mut_ptr().cast::<c_void>();
    // SAFETY: `value` has room for that many bytes.
    let result = unsafe { real::getsockopt(fd, level, name, to, &raw mut bytes) };
    if result == 0 { bytes as usize } else { 0 }
}

/// Whether the kernel has it as a listener.
pub(crate) fn is_listening(fd: c_int) -> bool {
    number(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(1)
}

/// How many connections may wait at a listener, as it was told: TCP_INFO's tcpi_sacked.
pub(crate) fn backlog(fd: c_int) -> c_int {
    // linux/tcp.h: eight bytes, then four numbers (rto, ato, snd_mss, rcv_mss), then unacked and
    // sacked.
    const SACKED_AT: usize = 8 + 5 * 4;
    let mut info = [0_u8; SACKED_AT + 4];
    let count = fill_up_to(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
    match info[SACKED_AT..].try_into() {
        Ok(bytes) if count == info.len() => c_int::from_ne_bytes(bytes),
        _ => libc::SOMAXCONN,
    }
}

/// The kernel's value of an option that is a number.
pub(crate) fn number(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    fill(fd, level, name, &mut value).then_some(value)
}

/// The kernel's value of an option of a plain type of C; false if it has none of that size.
pub(crate) fn fill<T: Copy>(fd: c_int, level: c_int, name: c_int, value: &mut T) -> bool {
    let mut bytes = size_of::<T>() as socklen_t;
    let to = std::ptr::from_mut(value).cast::<c_void>();
    // SAFETY: `value` has room for that many bytes.
    let result = unsafe { real::getsockopt(fd, level, name, to, &raw mut bytes) };
    result == 0 && bytes as usize == size_of::<T>()
}

/// What tells a socket from all others: SO_COOKIE of socket(7).
pub(crate) fn cookie(fd: c_int) -> Option<u64> {
    let mut cookie = 0;
    fill(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie).then_some(cookie)
}

/// Whether the open file's calls do not wait, as the kernel has it.
pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: it takes no argument.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// Sets the kernel's own flag, or clears it.
pub(crate) fn set_nonblocking(fd: c_int, is_on: bool) {
    // SAFETY: plain numbers. It fails only for what is no descriptor.
    unsafe {
        let flags = real::fcntl(fd, libc::F_GETFL, 0);
        if flags >= 0 {
            let rest = flags & !libc::O_NONBLOCK;
            let flags = if is_on { rest | libc::O_NONBLOCK } else { rest };
            real::fcntl(fd, libc::F_SETFL, flags as usize);
        }
    }
}
