//! The listener of processes that are known already but see other files than the daemon does.

use std::fmt::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{SocketAddrUnix, SocketFlags};
use sys::SysError;

use crate::listener::{self, BACKLOG, socket};
use crate::peer::Peer;

/// A listening socket with a name of its own instead of a file: a worker that was forked after
/// chroot(2) finds it, if it is in the daemon's network namespace.
///
/// No file guards it, so whoever comes this way is to show a token before anything else: the caller
/// sees to that. The name is drawn at random, so that nobody can have taken it before.
#[derive(Debug)]
pub struct JoinListener {
    socket: OwnedFd,
    name: String,
}

impl JoinListener {
    /// Listens under a new name.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn open() -> Result<Self, SysError> {
        let mut name = "calisto-".to_owned();
        for byte in sys::random::bytes::<16>()? {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        let failed = |errno| SysError::new("open the join listener", errno, "");
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(failed)?;
        let socket = socket(SocketFlags::NONBLOCK).map_err(failed)?;
        // Connections inherit it. An older kernel that cannot has `Peer` throw them away.
        let _ = sys::unix_socket::refuse_descriptors(socket.as_fd());
        rustix::net::bind(&socket, &address).map_err(failed)?;
        rustix::net::listen(&socket, BACKLOG).map_err(failed)?;
        Ok(Self { socket, name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next process that has connected, if one has; never waits.
    ///
    /// # Errors
    /// As of [`crate::AttachListener::accept`].
    pub fn accept(&self) -> Result<Option<Peer>, SysError> {
        listener::accept(self.socket.as_fd())
    }
}

impl AsFd for JoinListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
