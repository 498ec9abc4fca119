//! Sockets that came with the program, or from another process: whether they are the data plane's is
//! asked when they are first used.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use crate::entry::Body;
use crate::file::{File, Kind};
use crate::{descriptors, session, sockets};

/// See [`has_inherited`].
static HAS_INHERITED: AtomicBool = AtomicBool::new(false);

/// Marks the sockets that this program began with.
pub(crate) fn look_for_inherited() {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // The folder's own descriptor is in it; it is no socket.
    for fd in numbers {
        if may_be_ours(fd) {
            HAS_INHERITED.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether this program began with sockets.
pub(crate) fn has_inherited() -> bool {
    HAS_INHERITED.load(Ordering::Relaxed)
}

/// Marks a descriptor that came from elsewhere, if it may be one of the data plane's; whether it may.
pub(crate) fn may_be_ours(fd: c_int) -> bool {
    descriptors::is_new(fd);
    let may_be = sockets::kind_of(fd).is_some();
    if may_be {
        descriptors::set_unknown(fd);
    }
    may_be
}

/// Asks the daemon for the socket behind a descriptor.
pub(crate) fn ask(fd: c_int) -> Option<Body> {
    let (family, is_stream) = sockets::kind_of(fd)?;
    let session = session::get()?;
    // SAFETY: a call on this number is under way, so it is open, or the program's own mistake.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = session::inside(|| session.adopt(descriptor)).ok()??;
    session::note_region_of(&socket);
    socket.mark_shared();
    let kind = match (is_stream, sockets::is_listening(fd)) {
        (true, true) => Kind::Listener,
        (true, false) => Kind::Stream,
        (false, _) => Kind::Datagram,
    };
    Some(Body::Socket(File::new(socket, kind, family)))
}
