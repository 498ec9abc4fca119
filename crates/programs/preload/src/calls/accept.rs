//! accept(2) of a listener with two halves: connections of the data plane and of the kernel.

use std::net::SocketAddr;

use calisto_client::sockets::Readiness;
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;

use crate::calls::{inherit, renew, stdio};
use crate::entry::file::{File, Kind};
use crate::entry::{Body, descriptors, own_code};
use crate::process::{again, lookup, session};
use crate::system::{address, kernel_socket, outcome, real};
use crate::wait::deadline::Deadline;
use crate::wait::{self, Ended};

/// accept(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn accept(fd: c_int, address: *mut sockaddr, bytes: *mut socklen_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { accept4(fd, address, bytes, 0) }
}

/// accept4(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    bytes: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let Some(held) = lookup::socket(fd) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::accept4(fd, address, bytes, flags) };
    };
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return outcome::failed(Errno::INVAL);
    }
    let Some(file) = held.file() else { return outcome::failed(Errno::NOTSOCK) };
    if file.kind != Kind::Listener {
        let errno = if file.kind == Kind::Stream { Errno::INVAL } else { Errno::OPNOTSUPP };
        return outcome::failed(errno);
    }
    let deadline = Deadline::of_option(file.receive_timeout());
    renew::say();
    again::look();
    if file.was_renewed() {
        // SAFETY: the caller's arguments.
        return unsafe { accept4(fd, address, bytes, flags) };
    }
    loop {
        match of_data_plane(file, flags) {
            Ok((made, peer)) => {
                if let Some(peer) = peer
                    && !address.is_null()
                    // SAFETY: the caller's promise.
                    && let Err(errno) = unsafe { address::write(peer, file.family, address, bytes) }
                {
                    // SAFETY: a descriptor that nobody knows of yet.
                    unsafe { crate::calls::close::close(made) };
                    return outcome::failed(errno);
                }
                stdio::stand_in(made);
                return made;
            }
            Err(Errno::AGAIN) => {}
            Err(errno) => return outcome::failed(errno),
        }
        // The kernel's half never waits, and knows if the listener was shut down.
        // SAFETY: the caller's arguments.
        let made = unsafe { real::accept4(fd, address, bytes, flags) };
        if made >= 0 {
            descriptors::is_new(made);
            return made;
        }
        let errno = outcome::last_errno();
        if errno != Errno::AGAIN || file.is_nonblocking() {
            return made;
        }
        match wait::on(fd, &held, Readiness::IN, deadline) {
            Ok(Ended::Look) => {}
            Ok(Ended::Replaced) if file.was_renewed() => {
                // SAFETY: the caller's arguments.
                return unsafe { accept4(fd, address, bytes, flags) };
            }
            Ok(Ended::Replaced) => return outcome::failed(Errno::BADF),
            Ok(Ended::TimedOut) => return outcome::failed(Errno::AGAIN),
            Err(errno) => return outcome::failed(errno),
        }
    }
}

/// Takes a connection of the data plane. The descriptor is made first: when there are no more, the
/// connection goes on waiting.
fn of_data_plane(listener: &File, flags: c_int) -> Result<(c_int, Option<SocketAddr>), Errno> {
    if !listener.readiness().contains(Readiness::IN) {
        return Err(Errno::AGAIN);
    }
    let kind = libc::SOCK_STREAM | flags;
    // SAFETY: plain numbers.
    let made = outcome::of(unsafe { real::socket(listener.family, kind, 0) })?;
    descriptors::is_new(made);
    let discard = |errno| {
        // SAFETY: a descriptor that nobody knows of yet.
        unsafe { real::close(made) };
        errno
    };
    let socket = loop {
        match own_code::run(|| listener.socket.accept()) {
            Ok(socket) => break socket,
            // It was gone before it could be had; the next one.
            Err(Errno::CONNABORTED) => continue,
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                return Err(discard(errno));
            }
            // Another thread was faster, or the listener was shut down, which the kernel says.
            Err(_) => return Err(discard(Errno::AGAIN)),
        }
    };
    session::note_region_of(&socket);
    let cookie = kernel_socket::cookie(made).ok_or_else(|| discard(Errno::CONNABORTED))?;
    socket.name(cookie);
    let peer = socket.peer_address();
    let file = File::new(socket, Kind::Stream, listener.family);
    file.set_nonblocking(flags & libc::SOCK_NONBLOCK != 0);
    inherit::from_listener(listener, &file, made);
    if descriptors::install(made, Body::Socket(file)).is_none() {
        return Err(discard(Errno::MFILE));
    }
    Ok((made, peer))
}
