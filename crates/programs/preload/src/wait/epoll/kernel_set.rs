//! The kernel's set that stands behind each set of ours: its members, and whether there is one.

use libc::{c_int, epoll_event};
use rustix::io::Errno;

use crate::system::{outcome, real};

/// epoll_ctl(2) on the kernel's set.
pub(super) fn control(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: Option<epoll_event>,
) -> Result<(), Errno> {
    let mut event = event;
    let event = event.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the event is ours, or null where none is needed.
    outcome::of(unsafe { real::epoll_ctl(set, operation, fd, event) }).map(|_| ())
}

/// Whether the kernel has it as a set: only a set refuses itself so.
pub(crate) fn is_set(fd: c_int) -> bool {
    // SAFETY: no room for events is an error that comes after the look at the descriptor.
    let result = unsafe { real::epoll_wait(fd, std::ptr::null_mut(), 1, 0) };
    // A set without events answers 0; one with events finds no room for them: EFAULT.
    result == 0 || outcome::last_errno() == Errno::FAULT
}

pub(crate) fn not_a_set(fd: c_int) -> Errno {
    // SAFETY: it takes no argument.
    if unsafe { real::fcntl(fd, libc::F_GETFD, 0) } < 0 { Errno::BADF } else { Errno::INVAL }
}
