//! The application's end of a connection.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendFlags, SocketAddrUnix, SocketFlags};
use sys::{SysError, clock, poll};

use crate::channel::{self, Incoming};
use crate::error::AttachError;
use crate::listener::socket;
use crate::message::{ToApp, ToDaemon};
use crate::sockets::{Call, JoinRequest, Reply, SocketsRequest, Streaming};
use crate::{DESCRIPTORS_MAX, peer, text, trust};

/// A daemon that does not take a connection or a message for this long is stuck.
const TIMEOUT: Duration = Duration::from_secs(5);

/// So long a question may be answered: the daemon may have to find out a link address first.
const ANSWER_MAX: Nanos = Nanos::from_secs(10);

/// A connection that the daemon has given to the kernel: see [`ToApp::Given`].
#[derive(Debug)]
pub struct Given {
    /// Of the socket that the program has had so far.
    pub cookie: u64,
    /// The one that it has from now on.
    pub socket: OwnedFd,
}

/// The connection to the daemon. Waits, but never for ever.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    /// The user who listens at the other end.
    daemon_uid: u32,
    /// Calls so far: each has its own number.
    calls: AtomicU64,
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
        let link = Self::connect_to(&address, path, failed)?;
        match trust::is_daemon_at(path, link.daemon_uid) {
            true => Ok(link),
            false => Err(AttachError::NotTheDaemon(path.to_owned())),
        }
    }

    /// Connects to the join listener of this name: see `JoinListener`. A name is anybody's once
    /// the daemon has ended, so `daemon_uid` must be the user who listens: the one of the daemon
    /// that told the name, and one whom this process can tell from others.
    ///
    /// # Errors
    /// As of [`Self::connect`].
    pub fn connect_aside(name: &str, daemon_uid: u32) -> Result<Self, AttachError> {
        let failed = |errno| SysError::new(format!("connect to @{name}"), errno, "");
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(failed)?;
        let path = Path::new("@").join(name);
        let link = Self::connect_to(&address, &path, failed)?;
        match trust::is_same_user(link.daemon_uid, daemon_uid) {
            true => Ok(link),
            false => Err(AttachError::NotTheDaemon(path)),
        }
    }

    /// The user who listens at the other end.
    pub fn daemon_uid(&self) -> u32 {
        self.daemon_uid
    }

    fn connect_to(
        address: &SocketAddrUnix,
        path: &Path,
        failed: impl Fn(Errno) -> SysError,
    ) -> Result<Self, AttachError> {
        let socket = socket(SocketFlags::empty()).map_err(&failed)?;
        // It bounds `connect` too, which waits while the daemon accepts nobody.
        set_socket_timeout(&socket, Timeout::Send, Some(TIMEOUT)).map_err(&failed)?;
        loop {
            return match rustix::net::connect(&socket, address) {
                Ok(()) => {
                    let daemon_uid = trust::listener_of(socket.as_fd())?;
                    Ok(Self { socket, daemon_uid, calls: AtomicU64::new(0) })
                }
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

    /// The same under a high number: see [`sys::descriptor::out_of_the_way`].
    #[must_use]
    pub fn out_of_the_way(self) -> Self {
        Self { socket: sys::descriptor::out_of_the_way(self.socket), ..self }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The daemon is gone, does not read for 5 s, or the message breaks a limit.
    pub fn send(&self, message: &ToDaemon) -> Result<(), AttachError> {
        self.send_with(message, None)
    }

    fn send_with(
        &self,
        message: &ToDaemon,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), AttachError> {
        message.check().map_err(AttachError::Protocol)?;
        let text = text::encode(message).ok_or_else(|| AttachError::Protocol(peer::too_long()))?;
        let descriptors = descriptor.as_slice();
        match channel::send(self.socket.as_fd(), &text, descriptors, SendFlags::empty()) {
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
    /// The daemon is gone, or what it sent is no message. EMFILE: a connection that is the kernel's
    /// ([`ToApp::Given`]) comes next, and there is no descriptor for it: it stays there.
    pub fn receive(&self, timeout: Nanos) -> Result<Option<(ToApp, Vec<OwnedFd>)>, AttachError> {
        let deadline = clock::now() + timeout;
        loop {
            let incoming = channel::look(self.socket.as_fd())
                .map_err(|errno| SysError::new("read the daemon's message", errno, ""))?;
            match &incoming {
                Incoming::Nothing | Incoming::Closed => {}
                Incoming::TooManyDescriptors(_) if self.is_next_given() => {
                    let advice = "raise the limit of open files (ulimit -n)";
                    return Err(SysError::new("take a connection", Errno::MFILE, advice).into());
                }
                _ => channel::drop_oldest(self.socket.as_fd()),
            }
            match incoming {
                Incoming::Message(text, descriptors) => {
                    let message = text::decode_to_app(&text).map_err(AttachError::Protocol)?;
                    return Ok(Some((message, descriptors)));
                }
                Incoming::Closed => return Err(AttachError::Closed),
                Incoming::TooLong(_) => return Err(AttachError::Protocol(peer::too_long())),
                Incoming::TooManyDescriptors(_) => {
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

    fn is_next_given(&self) -> bool {
        let text = channel::text_of_oldest(self.socket.as_fd());
        matches!(text::decode_to_app(&text), Ok(ToApp::Given { .. }))
    }

    /// Enters sockets mode; what came beside the answer is described at [`Streaming`].
    ///
    /// # Errors
    /// The daemon is gone, slow, or says no.
    pub fn stream(
        &self,
        request: &SocketsRequest,
    ) -> Result<(Streaming, Vec<OwnedFd>), AttachError> {
        self.send(&ToDaemon::Stream(request.clone()))?;
        self.streaming()
    }

    /// Joins an application in sockets mode, from another of its processes.
    ///
    /// # Errors
    /// The daemon is gone, slow, or says no.
    pub fn join(&self, request: &JoinRequest) -> Result<(Streaming, Vec<OwnedFd>), AttachError> {
        self.send(&ToDaemon::Join(request.clone()))?;
        self.streaming()
    }

    fn streaming(&self) -> Result<(Streaming, Vec<OwnedFd>), AttachError> {
        match self.receive(ANSWER_MAX)?.ok_or(AttachError::TimedOut)? {
            (ToApp::Streaming(streaming), descriptors) => Ok((streaming, descriptors)),
            (ToApp::Refused { message }, _) => Err(AttachError::Refused(message)),
            (ToApp::Detached(detached), _) => Err(AttachError::Detached(detached)),
            (ToApp::Attached(_) | ToApp::Reply { .. } | ToApp::Given { .. }, _) => {
                Err(AttachError::Protocol(
                    "the daemon answered something else: build both from the same release"
                        .to_owned(),
                ))
            }
        }
    }

    /// Asks for something in sockets mode, with the socket that it is about, and waits for the
    /// answer. One call at a time: the caller sees to that.
    ///
    /// # Errors
    /// The daemon is gone, has let go of the application, or does not answer within 10 s. What it
    /// says to a call that timed out is dropped when it comes. Connections that are the kernel's
    /// from now on ([`ToApp::Given`]) go to `given`.
    pub fn call(
        &self,
        call: &Call,
        descriptor: Option<BorrowedFd<'_>>,
        mut given: impl FnMut(Given),
    ) -> Result<(Reply, Vec<OwnedFd>), AttachError> {
        let id = self.calls.fetch_add(1, Ordering::Relaxed);
        self.send_with(&ToDaemon::Call { id, call: call.clone() }, descriptor)?;
        let deadline = clock::now() + ANSWER_MAX;
        loop {
            let left = deadline.since(clock::now());
            match self.receive(left)?.ok_or(AttachError::TimedOut)? {
                (ToApp::Reply { id: answered, reply }, descriptors) if answered == id => {
                    return Ok((reply, descriptors));
                }
                (ToApp::Detached(detached), _) => return Err(AttachError::Detached(detached)),
                (ToApp::Refused { message }, _) => return Err(AttachError::Refused(message)),
                (ToApp::Given { cookie }, descriptors) => {
                    descriptors.into_iter().for_each(|socket| given(Given { cookie, socket }));
                }
                // The answer to a call that was given up, or what means nothing here.
                (ToApp::Reply { .. } | ToApp::Streaming(_) | ToApp::Attached(_), _) => {}
            }
        }
    }

    /// The next connection that is the kernel's from now on; `None` when none comes within
    /// `timeout`. Nobody may be in [`Self::call`]: answers that come meanwhile are dropped.
    ///
    /// # Errors
    /// As of [`Self::receive`]. What can come no more has not come.
    pub fn given(&self, timeout: Nanos) -> Result<Option<Given>, AttachError> {
        let deadline = clock::now() + timeout;
        loop {
            let left = deadline.since(clock::now());
            match self.receive(left)? {
                Some((ToApp::Given { cookie }, descriptors)) => {
                    if let Some(socket) = descriptors.into_iter().next() {
                        return Ok(Some(Given { cookie, socket }));
                    }
                }
                Some((ToApp::Detached(detached), _)) => {
                    return Err(AttachError::Detached(detached));
                }
                Some(_) => {}
                None => return Ok(None),
            }
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
