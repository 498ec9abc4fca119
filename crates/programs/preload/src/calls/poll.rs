//! poll(2) and ppoll(2).

use libc::{c_int, nfds_t, pollfd, sigset_t, size_t, timespec};
use rustix::io::Errno;

use crate::entry::descriptors;
use crate::system::{copy, faults, outcome, real};
use crate::wait::deadline::Deadline;
use crate::wait::list::{List, SHORT, Wanted};

/// poll(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller's promise.
    if !unsafe { has_ours(fds, count) } {
        // SAFETY: the caller's arguments.
        return unsafe { real::poll(fds, count, timeout) };
    }
    let deadline = Deadline::after_milliseconds(timeout);
    // SAFETY: the caller's promise.
    outcome::number(unsafe { serve(fds, count, deadline, std::ptr::null()) })
}

/// ppoll(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    if !unsafe { has_ours(fds, count) } {
        // SAFETY: the caller's arguments.
        return unsafe { real::ppoll(fds, count, timeout, mask) };
    }
    // SAFETY: the caller's promise.
    let result = unsafe { Deadline::after_timespec(timeout) }
        // SAFETY: the caller's promise.
        .and_then(|deadline| unsafe { serve(fds, count, deadline, mask) });
    outcome::number(result)
}

/// poll(2) as programs call it that were built to check its list's length.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn poll_checked(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    room: size_t,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        // SAFETY: libc ends the program and says why.
        return unsafe { real::__poll_chk(fds, count, timeout, room) };
    }
    // SAFETY: the caller's arguments.
    unsafe { poll(fds, count, timeout) }
}

/// ppoll(2) as programs call it that were built to check its list's length.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn ppoll_checked(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        // SAFETY: libc ends the program and says why.
        return unsafe { real::__ppoll_chk(fds, count, timeout, mask, room) };
    }
    // SAFETY: the caller's arguments.
    unsafe { ppoll(fds, count, timeout, mask) }
}

/// Whether a list names anything of ours. A list that cannot be read is the kernel's to refuse.
unsafe fn has_ours(fds: *const pollfd, count: nfds_t) -> bool {
    // A list longer than there can be descriptors is refused before it is read.
    let is_too_long = count as usize > descriptors::DESCRIPTORS_MAX;
    if fds.is_null() || is_too_long || !descriptors::any_special() {
        return false;
    }
    faults::watch();
    (0..count as usize).any(|index| {
        // SAFETY: the caller's promise.
        let place = unsafe { copy::get(fds.add(index)) };
        place.is_ok_and(|place| !descriptors::is_plain(place.fd))
    })
}

unsafe fn serve(
    fds: *mut pollfd,
    count: nfds_t,
    deadline: Deadline,
    mask: *const sigset_t,
) -> Result<c_int, Errno> {
    faults::watch();
    if count as usize > SHORT && count as usize > most_descriptors() {
        return Err(Errno::INVAL);
    }
    let mut wanted = Wanted::new();
    for index in 0..count as usize {
        // SAFETY: the caller's promise.
        let place = unsafe { copy::get(fds.add(index))? };
        wanted.push((place.fd, place.events));
    }
    let mut list = List::new(wanted.into_iter());
    let ready = list.wait(deadline, mask)?;
    for (index, place) in list.kernel.iter().enumerate() {
        // SAFETY: the caller's promise; only the answers are written.
        unsafe { copy::put(&raw mut (*fds.add(index)).revents, &place.revents)? };
    }
    Ok(ready as c_int)
}

/// How many descriptors the process may have, and so places a list (`do_sys_poll`).
fn most_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}
