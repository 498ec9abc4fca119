//! What the descriptor of a call is. A socket that came from elsewhere is asked for its identity
//! when it is first used.

use std::os::fd::BorrowedFd;

use libc::c_int;

use crate::entry::descriptors::{self, Found};
use crate::entry::file::{File, Kind};
use crate::entry::{Body, Held, own_code};
use crate::process::{again, session};
use crate::system::{fork, kernel_socket};

/// What a descriptor is. A socket from elsewhere is asked for its identity now.
#[inline]
pub(crate) fn find(fd: c_int) -> Found {
    loop {
        if let Some(found) = descriptors::look(fd) {
            if let Found::Ours(held) = &found
                && held.file().is_some_and(File::is_to_leave)
                && again::leave(fd, held)
            {
                continue;
            }
            return found;
        }
        // For a signal's handler in the middle of our own code it is the kernel's; the next call
        // asks. A child that shares our memory but not our descriptors would answer for its parent,
        // with descriptors that the parent does not have.
        if own_code::is_running() || fork::is_borrowed() {
            return Found::Plain;
        }
        descriptors::settle(fd, ask(fd));
    }
}

/// Has the number be the kernel's if its connection is, so that what is done to the number is done
/// to that. A socket from elsewhere is not asked.
pub(crate) fn leave(fd: c_int) {
    if let Found::Ours(held) = descriptors::find_quietly(fd)
        && held.file().is_some_and(File::is_to_leave)
    {
        again::leave(fd, &held);
    }
}

/// The entry of a descriptor, if it has one.
pub(crate) fn held(fd: c_int) -> Option<Held> {
    match find(fd) {
        Found::Ours(held) => Some(held),
        Found::Plain | Found::Internal | Found::KernelSet => None,
    }
}

/// The entry of a descriptor that is a socket of ours.
#[inline]
pub(crate) fn socket(fd: c_int) -> Option<Held> {
    held(fd).filter(|held| held.file().is_some())
}

/// Asks the daemon for the socket behind a descriptor.
fn ask(fd: c_int) -> Option<Body> {
    let (family, is_stream) = kernel_socket::kind_of(fd)?;
    let session = session::get()?;
    // SAFETY: a call on this number is under way, so it is open, or the program's own mistake.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = own_code::run(|| session.adopt(descriptor)).ok()??;
    session::note_region_of(&socket);
    socket.mark_shared();
    let kind = match (is_stream, kernel_socket::is_listening(fd)) {
        (true, true) => Kind::Listener,
        (true, false) => Kind::Stream,
        (false, _) => Kind::Datagram,
    };
    Some(Body::Socket(File::new(socket, kind, family)))
}
