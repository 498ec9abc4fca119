//! A TCP connection with the calls of `std::net::TcpStream`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use attach::FallbackReason;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::SocketType;
use shm::sockets::SlotOption;

use super::kernel::{self, Named};
use super::offer::Outcome;
use super::readiness::Readiness;
use super::receive::ReceiveFlags;
use super::session::Session;
use super::socket::{self, Socket};
use super::waiting::Waited;

/// A TCP connection, served by the daemon where that is possible and else by the kernel, with the
/// same calls. Handles made by [`TcpStream::try_clone`] are of one connection, which is closed with
/// the last of them.
#[derive(Debug)]
pub struct TcpStream(pub(super) By);

/// The side that serves it.
#[derive(Debug)]
pub(super) enum By {
    Us(Arc<Named>),
    Kernel(std::net::TcpStream),
}

impl TcpStream {
    /// Connects to `address`, and waits until that is done or has failed.
    ///
    /// # Errors
    /// As the kernel's connect(2).
    pub fn connect(session: &Session, address: SocketAddr) -> io::Result<Self> {
        Self::connect_within(session, address, None)
    }

    /// Connects to `address`, and waits for at most `timeout`.
    ///
    /// # Errors
    /// As the kernel's connect(2), or the time is up.
    pub fn connect_timeout(
        session: &Session,
        address: SocketAddr,
        timeout: Duration,
    ) -> io::Result<Self> {
        Self::connect_within(session, address, Some(timeout))
    }

    fn connect_within(
        session: &Session,
        address: SocketAddr,
        timeout: Option<Duration>,
    ) -> io::Result<Self> {
        let fd = kernel::open(address, SocketType::STREAM)?;
        let Some(stream) = Self::begin(session, &fd, address)? else {
            drop(fd);
            let stream = match timeout {
                None => std::net::TcpStream::connect(address),
                Some(timeout) => std::net::TcpStream::connect_timeout(&address, timeout),
            };
            return stream.map(By::Kernel).map(Self);
        };
        // Closed if it comes to nothing.
        let named = Named::new(stream, fd)?;
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            match named.socket.connected() {
                Ok(()) => return Ok(Self(By::Us(Arc::new(named)))),
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            // Signals interrupt the wait, and do not make it longer.
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if named.socket.wait(Readiness::OUT, left)? == Waited::TimedOut {
                named.socket.abort();
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Has the daemon begin a connection; none: the kernel is to do it.
    pub(super) fn begin(
        session: &Session,
        fd: &OwnedFd,
        address: SocketAddr,
    ) -> io::Result<Option<Socket>> {
        match session.connect(fd.as_fd(), address) {
            Ok(Outcome::Ours(socket)) => Ok(Some(socket)),
            Ok(Outcome::Errno(errno)) => Err(errno.into()),
            Ok(Outcome::Kernel(_)) => Ok(None),
            Err(_) => {
                session.fallback(fd.as_fd(), FallbackReason::DaemonGone);
                Ok(None)
            }
        }
    }

    /// Whether the daemon serves it, not the kernel.
    pub fn is_accelerated(&self) -> bool {
        matches!(self.0, By::Us(_))
    }

    /// The daemon's socket, if it is one.
    pub fn socket(&self) -> Option<&Socket> {
        match &self.0 {
            By::Us(named) => Some(&named.socket),
            By::Kernel(_) => None,
        }
    }

    /// Another handle of the same connection.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(match &self.0 {
            By::Us(named) => By::Us(Arc::clone(named)),
            By::Kernel(stream) => By::Kernel(stream.try_clone()?),
        }))
    }

    /// The peer's address.
    ///
    /// # Errors
    /// It is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            By::Us(named) => named.socket.peer_address().ok_or(Errno::NOTCONN.into()),
            By::Kernel(stream) => stream.peer_addr(),
        }
    }

    /// Its own address.
    ///
    /// # Errors
    /// It has none.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            By::Us(named) => named.socket.local_address().ok_or(Errno::NOTCONN.into()),
            By::Kernel(stream) => stream.local_addr(),
        }
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// It is not connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match &self.0 {
            By::Us(named) => Ok(named.socket.shutdown(match how {
                Shutdown::Read => socket::Shutdown::Read,
                Shutdown::Write => socket::Shutdown::Write,
                Shutdown::Both => socket::Shutdown::Both,
            })?),
            By::Kernel(stream) => stream.shutdown(how),
        }
    }

    /// Whether a small segment is sent while others are not acknowledged, which Nagle's algorithm
    /// (RFC 9293 3.7.4) forbids: TCP_NODELAY of tcp(7).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_nodelay(&self, is_on: bool) -> io::Result<()> {
        match &self.0 {
            By::Us(named) => {
                named.socket.set_option(SlotOption::NoDelay, u32::from(is_on));
                Ok(())
            }
            By::Kernel(stream) => stream.set_nodelay(is_on),
        }
    }

    /// See [`Self::set_nodelay`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn nodelay(&self) -> io::Result<bool> {
        match &self.0 {
            By::Us(named) => Ok(named.socket.option(SlotOption::NoDelay) != 0),
            By::Kernel(stream) => stream.nodelay(),
        }
    }

    /// Calls that would wait fail with WouldBlock.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_nonblocking(&self, is_on: bool) -> io::Result<()> {
        match &self.0 {
            By::Us(named) => {
                named.socket.set_flags(if is_on { OFlags::NONBLOCK.bits() } else { 0 });
                Ok(())
            }
            By::Kernel(stream) => stream.set_nonblocking(is_on),
        }
    }

    /// How long a read waits; `None`: without end. SO_RCVTIMEO of socket(7).
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.0 {
            By::Us(named) => set_timeout(&named.socket, SlotOption::ReceiveTimeout, timeout),
            By::Kernel(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// How long a write waits; `None`: without end. SO_SNDTIMEO of socket(7).
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.0 {
            By::Us(named) => set_timeout(&named.socket, SlotOption::SendTimeout, timeout),
            By::Kernel(stream) => stream.set_write_timeout(timeout),
        }
    }

    /// Takes the waiting error, if there is one: SO_ERROR of socket(7).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        match &self.0 {
            By::Us(named) => Ok(named.socket.take_error().map(Into::into)),
            By::Kernel(stream) => stream.take_error(),
        }
    }

    /// Reads what stays to be read again.
    ///
    /// # Errors
    /// As for reading.
    pub fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            By::Us(named) => named.peek(to),
            By::Kernel(stream) => stream.peek(to),
        }
    }
}

impl Named {
    fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        let flags = ReceiveFlags { peek: true, ..ReceiveFlags::default() };
        blocking(&self.socket, Readiness::IN, SlotOption::ReceiveTimeout, || {
            let mut done = 0;
            self.socket.receive_with(flags, |piece| {
                let copied = piece.copy_out(&mut to[done..]);
                done += copied;
                Ok(copied)
            })
        })
    }
}

/// Repeats a call until it does not have to wait, as far as the socket's flags and timeouts allow.
pub(super) fn blocking<T>(
    socket: &Socket,
    want: Readiness,
    timeout: SlotOption,
    mut call: impl FnMut() -> Result<T, Errno>,
) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::AGAIN) if socket.flags() & OFlags::NONBLOCK.bits() == 0 => {}
            // In a signal's handler that has interrupted such a call of its own thread.
            Err(Errno::DEADLK) => return Err(Errno::AGAIN.into()),
            result => return Ok(result?),
        }
        match socket.wait(want, timeout_of(socket, timeout))? {
            Waited::Ready => {}
            Waited::TimedOut => return Err(Errno::AGAIN.into()),
            Waited::Interrupted => return Err(Errno::INTR.into()),
        }
    }
}

pub(super) fn timeout_of(socket: &Socket, which: SlotOption) -> Option<Duration> {
    match socket.option(which) {
        0 => None,
        micros => Some(Duration::from_micros(u64::from(micros))),
    }
}

pub(super) fn set_timeout(
    socket: &Socket,
    which: SlotOption,
    timeout: Option<Duration>,
) -> io::Result<()> {
    if timeout == Some(Duration::ZERO) {
        return Err(Errno::INVAL.into());
    }
    // The longest that the word can say is more than an hour.
    let micros = |timeout: Duration| timeout.as_micros().clamp(1, u128::from(u32::MAX)) as u32;
    socket.set_option(which, timeout.map_or(0, micros));
    Ok(())
}

impl Read for &TcpStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            By::Us(named) => {
                let socket = &named.socket;
                let read = || socket.receive(to);
                blocking(socket, Readiness::IN, SlotOption::ReceiveTimeout, read)
            }
            By::Kernel(stream) => (&*stream).read(to),
        }
    }
}

impl Write for &TcpStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match &self.0 {
            By::Us(named) => {
                let socket = &named.socket;
                let write = || socket.send(from);
                blocking(socket, Readiness::OUT, SlotOption::SendTimeout, write)
            }
            By::Kernel(stream) => (&*stream).write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&*self).read(to)
    }
}

impl Write for TcpStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for TcpStream {
    /// The kernel socket: of an accelerated connection it is there for its identity only.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            By::Us(named) => named.fd.as_fd(),
            By::Kernel(stream) => stream.as_fd(),
        }
    }
}
