//! listen(2): the kernel's listener first, and ours beside it behind the same descriptor.

use std::os::fd::BorrowedFd;

use client::stream::Outcome;
use libc::c_int;
use rustix::io::Errno;

use crate::entry::Body;
use crate::file::{File, Kind};
use crate::table::real;
use crate::{descriptors, inherit, life, outcome, say, session, sockets};

/// listen(2). The kernel's part serves what does not come through the data plane, holds the port, and
/// says what is wrong with the call.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn listen(fd: c_int, backlog: c_int) -> c_int {
    if descriptors::socket(fd)
        .is_some_and(|held| held.file().is_some_and(|file| file.kind == Kind::Stream))
    {
        // The kernel does not know that it is connected.
        return outcome::failed(Errno::INVAL);
    }
    // SAFETY: plain numbers.
    let result = unsafe { real::listen(fd, backlog) };
    if result == 0 && descriptors::is_plain(fd) && !life::is_borrowed() {
        return match outcome::unheard(|| beside(fd, backlog)) {
            Ok(()) => 0,
            Err(errno) => {
                // Nobody is to be served here, by the kernel neither.
                // SAFETY: plain numbers.
                unsafe { real::shutdown(fd, libc::SHUT_RDWR) };
                outcome::failed(errno)
            }
        };
    }
    result
}

/// Opens our listener, if the data plane has one for this address.
///
/// # Errors
/// This user may not listen there.
fn beside(fd: c_int, backlog: c_int) -> Result<(), Errno> {
    let Some((family, true)) = sockets::kind_of(fd) else { return Ok(()) };
    let Some(session) = session::get() else { return Ok(()) };
    if sockets::is_kept(session, fd) {
        return Ok(());
    }
    let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
    // SAFETY: the kernel has just made it a listener.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    match session::inside(|| session.listen(descriptor, backlog)) {
        Ok(Outcome::Ours(socket)) => {
            let file = File::new(socket, Kind::Listener, family);
            file.set_nonblocking(sockets::is_nonblocking(fd));
            inherit::from_kernel(fd, &file);
            // Two take connections from the kernel's part: none may wait there for one that the other
            // has just taken. Whether the program's calls wait is kept beside it.
            sockets::set_nonblocking(fd);
            descriptors::install(fd, Body::Socket(file));
        }
        Ok(Outcome::Kernel(reason)) => say::fallback(reason),
        Ok(Outcome::Errno(errno)) => return Err(errno),
        Err(error) => say::no_daemon(&error),
    }
    Ok(())
}
