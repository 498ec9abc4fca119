//! The daemon's end of a connection: it never waits, and keeps nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::SendFlags;
use sys::SysError;

use crate::channel::{self, Descriptors, Incoming};
use crate::message::{ToApp, ToDaemon};
use crate::text;
use crate::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX};

/// One application, as the daemon sees it.
///
/// Nothing here waits for the application. One thing the kernel may wait for before Linux 6.16,
/// which lets us refuse descriptors: when a hostile application passes the last descriptor of a TCP
/// socket that lingers, the thread that reads that message (or drops the peer while it is unread)
/// is the one that closes it. So keep peers on a thread that forwards no packets.
#[derive(Debug)]
pub struct Peer {
    socket: OwnedFd,
    credentials: PeerCredentials,
}

/// Who connected, as the kernel says (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Its process; zero when that is in a PID namespace which the daemon does not see.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// What an application said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing.
    Nothing,
    /// A message that keeps every limit.
    Message(ToDaemon),
    /// Something that is none: a sentence that can be sent back.
    Bad(String),
    /// It is gone.
    Closed,
}

impl Peer {
    /// The daemon's end of a connection, or a copy of it. `socket` must not block.
    ///
    /// # Errors
    /// It is no connected UNIX socket.
    pub fn new(socket: OwnedFd) -> Result<Self, SysError> {
        let who = sys::unix_socket::peer_credentials(socket.as_fd())?;
        let credentials = PeerCredentials { pid: who.pid, uid: who.uid, gid: who.gid };
        Ok(Self { socket, credentials })
    }

    /// Who connected.
    pub fn credentials(&self) -> PeerCredentials {
        self.credentials
    }

    /// The next message, if there is one. Descriptors beside it never become ours.
    ///
    /// # Errors
    /// The kernel failed; the connection is of no more use.
    pub fn receive(&self) -> Result<Received, SysError> {
        self.take(Descriptors::Refuse).map(|(received, _)| received)
    }

    /// From now on the application may pass a descriptor with each message; read them by
    /// [`Self::receive_call`].
    pub fn accept_descriptors(&self) {
        sys::unix_socket::accept_descriptors(self.socket.as_fd());
    }

    /// The next message of an application that may pass descriptors, with the one that came beside
    /// it. It is missing, too, when the daemon may open no more. Beside what is [`Received::Bad`]
    /// there may be more. To close them can take as long as the application likes.
    ///
    /// # Errors
    /// The kernel failed; the connection is of no more use.
    pub fn receive_call(&self) -> Result<(Received, Vec<OwnedFd>), SysError> {
        self.take(Descriptors::One)
    }

    fn take(&self, wanted: Descriptors) -> Result<(Received, Vec<OwnedFd>), SysError> {
        let incoming = channel::receive(self.socket.as_fd(), wanted)
            .map_err(|errno| SysError::new("read what an application sent", errno, ""))?;
        Ok(match incoming {
            Incoming::Nothing => (Received::Nothing, Vec::new()),
            Incoming::Closed => (Received::Closed, Vec::new()),
            Incoming::Message(text, descriptors) => {
                let received = text::decode_to_daemon(&text);
                (received.map_or_else(Received::Bad, Received::Message), descriptors)
            }
            Incoming::TooLong(descriptors) => (Received::Bad(too_long()), descriptors),
            Incoming::TooManyDescriptors(descriptors) => {
                (Received::Bad("a call has one descriptor".into()), descriptors)
            }
        })
    }

    /// Sends a message with descriptors beside it; false when the socket's buffer is full, because
    /// the application does not read.
    ///
    /// # Errors
    /// The application is gone, or the message is longer than one may be.
    pub fn send(&self, message: &ToApp, descriptors: &[BorrowedFd<'_>]) -> Result<bool, SysError> {
        let failed = |errno| SysError::new("answer an application", errno, "");
        let text = text::encode(message).ok_or(failed(rustix::io::Errno::MSGSIZE))?;
        if descriptors.len() > DESCRIPTORS_MAX {
            return Err(failed(rustix::io::Errno::TOOBIG));
        }
        channel::send(self.socket.as_fd(), &text, descriptors, SendFlags::DONTWAIT).map_err(failed)
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub(crate) fn too_long() -> String {
    format!("a message of the attach protocol has {MESSAGE_BYTES_MAX} bytes at most")
}
