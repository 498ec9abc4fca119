//! The application's end of a connection.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use base::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendFlags, SocketAddrUnix, SocketFlags};
use sys::{SysError, clock, poll};

use crate::channel::{self, Descriptors, Incoming};
use crate::error::AttachError;
use crate::listener::socket;
use crate::message::{ToApp, ToDaemon};
use crate::{DESCRIPTORS_MAX, peer, text};

/// A daemon that does not take a connection or a message for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connection to the daemon. Waits, but never for ever.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
}

impl Link {
    /// Connects to the daemon that listens on `path`.
    ///
    /// # Errors
    /// There is none, it does not answer within 5 s, or this user may not.
    pub fn connect(path: &Path) -> Result<Self, AttachError> {
        let failed = |errno| {
            SysError::new(
                format!("connect to {}", path.display()),
                errno,
                "look at the daemon's log",
            )
        };
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        let socket = socket(SocketFlags::empty()).map_err(failed)?;
        // It bounds `connect` too, which waits while the daemon accepts nobody.
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE)).map_err(failed)?;
        loop {
            return match rustix::net::connect(&socket, &address) {
                Ok(()) => Ok(Self { socket }),
                Err(Errno::INTR) => continue,
                Err(Errno::NOENT | Errno::NOTDIR) => Err(AttachError::NoSocket(path.to_owned())),
                Err(Errno::CONNREFUSED) if is_socket(path) => {
                    Err(AttachError::NobodyAnswers(path.to_owned()))
                }
                Err(Errno::CONNREFUSED | Errno::PROTOTYPE) => {
                    Err(AttachError::NotTheDaemon(path.to_owned()))
                }
                Err(Errno::ACCESS | Errno::PERM) => Err(AttachError::NotPermitted(path.to_owned())),
                Err(Errno::AGAIN) => Err(AttachError::TimedOut),
                Err(errno) => Err(failed(errno).into()),
            };
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The daemon is gone, does not read for 5 s, or the message breaks a limit.
    pub fn send(&self, message: &ToDaemon) -> Result<(), AttachError> {
        let ToDaemon::Attach(request) = message;
        request.check().map_err(AttachError::Protocol)?;
        let text = text::encode(message).ok_or_else(|| AttachError::Protocol(peer::too_long()))?;
        match channel::send(self.socket.as_fd(), &text, &[], SendFlags::empty()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(AttachError::TimedOut),
            Err(errno) if channel::is_gone(errno) => Err(AttachError::Closed),
            Err(errno) => Err(SysError::new("ask the daemon", errno, "").into()),
        }
    }

    /// The daemon's next message with the descriptors beside it; `None` when none comes within
    /// `timeout`.
    ///
    /// # Errors
    /// The daemon is gone, or what it sent is no message.
    pub fn receive(&self, timeout: Nanos) -> Result<Option<(ToApp, Vec<OwnedFd>)>, AttachError> {
        let deadline = clock::now() + timeout;
        loop {
            let incoming = channel::receive(self.socket.as_fd(), Descriptors::Keep)
                .map_err(|errno| SysError::new("read the daemon's message", errno, ""))?;
            match incoming {
                Incoming::Message(text, descriptors) => {
                    let message = text::decode_to_app(&text).map_err(AttachError::Protocol)?;
                    return Ok(Some((message, descriptors)));
                }
                Incoming::Closed => return Err(AttachError::Closed),
                Incoming::TooLong => return Err(AttachError::Protocol(peer::too_long())),
                Incoming::TooManyDescriptors => {
                    return Err(AttachError::Protocol(format!(
                        "the daemon's descriptors do not fit: raise the limit of open files \
                         (ulimit -n) to {DESCRIPTORS_MAX} more"
                    )));
                }
                Incoming::Nothing => {}
            }
            let left = deadline.since(clock::now());
            if left == Nanos::ZERO {
                return Ok(None);
            }
            poll::wait_readable(self.socket.as_fd(), left);
        }
    }

    /// Ends the connection for both sides, although others may still hold this.
    pub fn close(&self) {
        // It fails only when the daemon has closed already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Whether the daemon has closed the connection; a last message may still be there.
    pub fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Link {
    /// Readable when there is a message or the daemon has closed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What refused a connection is a socket that nobody listens on, not a file of another kind.
fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|file| file.file_type().is_socket())
}
