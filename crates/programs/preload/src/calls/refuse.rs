//! Callers that wait at a listener of the data plane when it ends.

use calisto_client::sockets::is_confined;
use rustix::io::Errno;

use crate::entry::file::File;
use crate::entry::own_code;
use crate::system::{kernel_socket, real};

/// Callers that are told at once: as many as may wait at a listener.
const CALLERS_MAX: usize = 4096;

/// A listener ends here and everywhere: who has called and was not accepted hears so before this
/// returns, as of a listener of the kernel's. Without a descriptor for it, or memory, the daemon
/// tells them, some milliseconds later.
pub(crate) fn all(listener: &File) {
    // A process that has locked itself in does not make sockets.
    if !listener.socket.has_callers() || own_code::is_running() || is_confined() {
        return;
    }
    // SAFETY: plain numbers.
    let made = unsafe { real::socket(listener.family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if made < 0 {
        return;
    }
    // They end for the daemon with the descriptor that they are named by.
    if let Some(cookie) = kernel_socket::cookie(made) {
        refuse(listener, cookie);
    }
    // SAFETY: a descriptor that nobody knows of.
    unsafe { real::close(made) };
}

fn refuse(listener: &File, cookie: u64) {
    for _ in 0..CALLERS_MAX {
        match own_code::run(|| listener.socket.accept()) {
            Ok(caller) => {
                caller.name(cookie);
                caller.abort();
            }
            // It was gone before it could be had; the next one.
            Err(Errno::CONNABORTED) => {}
            Err(_) => return,
        }
    }
}
