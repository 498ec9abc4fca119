//! Sockets that came with the program, or from another process: whether they are the data plane's
//! is asked when they are first used.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use crate::entry::descriptors;
use crate::system::kernel_socket;

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

/// Marks a descriptor that came from elsewhere, if it may be one of the data plane's; whether it
/// may.
pub(crate) fn may_be_ours(fd: c_int) -> bool {
    descriptors::is_new(fd);
    let may_be = kernel_socket::kind_of(fd).is_some();
    if may_be {
        descriptors::set_unknown(fd);
    }
    may_be
}
