//! Sockets that stay the kernel's for what the program has set on them: the daemon and the user are
//! told when they would have become ours.

use std::os::fd::BorrowedFd;

use calisto_client::sockets::{FallbackReason, Session};
use libc::c_int;

use crate::entry::{descriptors, own_code};
use crate::process::{say, session};
use crate::system::fork;
use crate::system::kernel_socket::{fill_up_to, number};

/// Whether a socket stays the kernel's for what the program has set on it; the daemon and the user
/// are told then.
pub(crate) fn is_kept(session: &Session, fd: c_int) -> bool {
    let mut device = [0_u8; libc::IFNAMSIZ];
    let is_bound = fill_up_to(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &mut device) > 0;
    let is_transparent = number(fd, libc::IPPROTO_IP, libc::IP_TRANSPARENT) == Some(1);
    let reason = match (is_bound, is_transparent) {
        (true, _) => FallbackReason::BoundToDevice,
        (_, true) => FallbackReason::Transparent,
        _ => return false,
    };
    say::fallback(reason);
    // SAFETY: it was a socket a moment ago.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    own_code::run(|| session.fallback(descriptor, reason));
    true
}

/// Says why a socket that is about to connect, to listen or to get a port is not ours, if it is for
/// one of these options.
pub(crate) fn tell(fd: c_int) {
    if !descriptors::is_kernels(fd) || fork::is_borrowed() {
        return;
    }
    let Some(session) = session::get() else { return };
    let reason = FallbackReason::UnsupportedOption;
    say::fallback(reason);
    // SAFETY: a call on this number is under way.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    own_code::run(|| session.fallback(descriptor, reason));
}
