//! listen(2): our listener first, and the kernel's beside it behind the same descriptor.

use std::os::fd::BorrowedFd;

use calisto_client::sockets::Outcome;
use libc::{c_int, sockaddr_storage, socklen_t};
use rustix::io::Errno;

use crate::calls::{close, fallback, inherit, refuse, twins};
use crate::entry::file::{File, Kind};
use crate::entry::{Body, Held, descriptors, own_code};
use crate::process::{lookup, say, session};
use crate::system::{address, fork, kernel_socket, outcome, real};

/// listen(2). The kernel's part serves what does not come through the data plane, holds the port,
/// and says what is wrong with the call.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn listen(fd: c_int, backlog: c_int) -> c_int {
    if lookup::socket(fd)
        .is_some_and(|held| held.file().is_some_and(|file| file.kind == Kind::Stream))
    {
        // The kernel does not know that it is connected.
        return outcome::failed(Errno::INVAL);
    }
    if !descriptors::is_plain(fd) || fork::is_borrowed() {
        outcome::unheard(|| fallback::tell(fd));
        // SAFETY: plain numbers.
        return unsafe { real::listen(fd, backlog) };
    }
    if !is_bound_only(fd) {
        // SAFETY: plain numbers.
        let result = unsafe { real::listen(fd, backlog) };
        if result != 0 {
            return result;
        }
        return match outcome::unheard(|| beside(fd, backlog)) {
            Ok(_) => 0,
            Err(errno) => {
                // No connection is to be served here, by the kernel neither.
                // SAFETY: plain numbers.
                unsafe { real::shutdown(fd, libc::SHUT_RDWR) };
                outcome::failed(errno)
            }
        };
    }
    // Once the kernel listens it takes callers: so the data plane does first.
    let ours = match outcome::unheard(|| beside(fd, backlog)) {
        Ok(ours) => ours,
        Err(errno) => return outcome::failed(errno),
    };
    // SAFETY: plain numbers.
    let result = unsafe { real::listen(fd, backlog) };
    if result != 0
        && let Some(ours) = ours
    {
        outcome::unheard(|| give_up(fd, &ours));
    }
    result
}

/// Whether it is a TCP socket that has a port and does nothing yet.
fn is_bound_only(fd: c_int) -> bool {
    if !matches!(kernel_socket::kind_of(fd), Some((_, true))) || kernel_socket::is_listening(fd) {
        return false;
    }
    // SAFETY: all zero are a valid address.
    let mut name = unsafe { std::mem::zeroed::<sockaddr_storage>() };
    let mut bytes = size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: `name` has so much room.
    let has_peer = unsafe { real::getpeername(fd, (&raw mut name).cast(), &raw mut bytes) } == 0;
    bytes = size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: likewise.
    if has_peer || unsafe { real::getsockname(fd, (&raw mut name).cast(), &raw mut bytes) } != 0 {
        return false;
    }
    // SAFETY: the kernel has written so much of it.
    let local = unsafe { address::read((&raw const name).cast(), bytes) };
    local.ok().flatten().is_some_and(|local| local.port() != 0)
}

/// It listens no more, or the kernel will not have it listen: its numbers are the kernel's. Calls
/// of other threads that wait for it begin anew.
pub(crate) fn give_up(fd: c_int, ours: &Held) {
    let Some(file) = ours.file() else { return };
    refuse::all(file);
    if let Some(session) = session::current()
        && !file.socket.is_orphaned()
    {
        own_code::run(|| session.unlisten(&file.socket));
    }
    kernel_socket::set_nonblocking(fd, file.is_nonblocking());
    file.set_renewed();
    twins::let_go(fd);
    close::forget(fd);
}

/// Opens our listener, if the data plane has one for this address.
///
/// # Errors
/// This user may not listen there.
pub(crate) fn beside(fd: c_int, backlog: c_int) -> Result<Option<Held>, Errno> {
    let Some((family, true)) = kernel_socket::kind_of(fd) else { return Ok(None) };
    let Some(session) = session::get() else { return Ok(None) };
    if fallback::is_kept(session, fd) {
        return Ok(None);
    }
    let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
    // SAFETY: it was a socket a moment ago.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    match own_code::run(|| session.listen(descriptor, backlog)) {
        Ok(Outcome::Ours(socket)) => {
            let file = File::new(socket, Kind::Listener, family);
            file.set_nonblocking(kernel_socket::is_nonblocking(fd));
            inherit::from_kernel(fd, &file);
            // Two take connections from the kernel's part: none may wait there for one that the
            // other has just taken. Whether the program's calls wait is kept beside it.
            kernel_socket::set_nonblocking(fd, true);
            let held = descriptors::install(fd, Body::Socket(file));
            held.iter().for_each(|held| twins::follow(fd, held));
            return Ok(held);
        }
        Ok(Outcome::Kernel(reason)) => say::fallback(reason),
        Ok(Outcome::Errno(errno)) => return Err(errno),
        Err(error) => say::no_daemon(&error),
    }
    Ok(None)
}
