//! A TCP listener with the calls of `std::net::TcpListener`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use attach::{AttachError, FallbackReason};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType};

use super::kernel::{self, Named};
use super::offer::Outcome;
use super::poller::Poller;
use super::readiness::Readiness;
use super::session::Session;
use super::socket::Socket;
use super::tcp_stream::{By, TcpStream};

/// Connections that may wait to be accepted, as std has it.
const BACKLOG: u32 = 128;

/// A thread that waits for a connection looks at this interval whether the daemon lives.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Listens on an address: with the daemon on its interfaces, and with the kernel on all others.
#[derive(Debug)]
pub struct TcpListener {
    /// Listens too, and never blocks.
    kernel: OwnedFd,
    ours: Option<Ours>,
    is_nonblocking: AtomicBool,
}

#[derive(Debug)]
struct Ours {
    socket: Socket,
    poller: Poller,
}

impl TcpListener {
    /// Listens on `address`; port 0: one that is free.
    ///
    /// # Errors
    /// As the kernel's bind(2) and listen(2).
    pub fn bind(session: &Session, address: SocketAddr) -> io::Result<Self> {
        let kernel = kernel::bound(address, SocketType::STREAM)?;
        rustix::io::ioctl_fionbio(&kernel, true)?;
        let ours = Self::offer(session, &kernel)?;
        Ok(Self { kernel, ours, is_nonblocking: AtomicBool::new(false) })
    }

    fn offer(session: &Session, kernel: &OwnedFd) -> io::Result<Option<Ours>> {
        let offered = listen(session, kernel)?;
        let Some(socket) = offered else { return Ok(None) };
        let poller = session.poller().map_err(|error| io::Error::other(error.to_string()))?;
        poller.add(&socket)?;
        Ok(Some(Ours { socket, poller }))
    }

    /// Whether the daemon listens too.
    pub fn is_accelerated(&self) -> bool {
        self.ours.is_some()
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(kernel::address(&self.kernel)?)
    }

    /// Calls that would wait fail with WouldBlock.
    ///
    /// # Errors
    /// None.
    pub fn set_nonblocking(&self, is_on: bool) -> io::Result<()> {
        self.is_nonblocking.store(is_on, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for a connection; returns it with the peer's address.
    ///
    /// # Errors
    /// Out of descriptors, and as the kernel's accept(2).
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = self.accept_or_wait();
        if let Some(Ours { socket, poller }) = &self.ours {
            poller.pass_on(|| socket.readiness().contains(Readiness::IN));
        }
        accepted
    }

    fn accept_or_wait(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            if let Some(accepted) = self.try_accept()? {
                return Ok(accepted);
            }
            if self.is_nonblocking.load(Ordering::Relaxed) {
                return Err(Errno::AGAIN.into());
            }
            self.wait()?;
        }
    }

    fn try_accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        if let Some(ours) = &self.ours
            && let Some(named) = accept(&ours.socket, self.local_addr()?)?
        {
            let peer = named.socket.peer_address().ok_or(Errno::NOTCONN)?;
            return Ok(Some((TcpStream(By::Us(Arc::new(named))), peer)));
        }
        match rustix::net::accept_with(&self.kernel, SocketFlags::CLOEXEC) {
            Ok(fd) => {
                let stream = std::net::TcpStream::from(fd);
                let peer = stream.peer_addr()?;
                Ok(Some((TcpStream(By::Kernel(stream)), peer)))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn wait(&self) -> io::Result<()> {
        let Some(Ours { poller, .. }) = &self.ours else {
            let mut fds = [PollFd::new(&self.kernel, PollFlags::IN)];
            rustix::event::poll(&mut fds, None)?;
            return Ok(());
        };
        Ok(poller.sleep_beside(&self.kernel, &LOOK_EVERY)?)
    }

    /// Connections, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<TcpStream>> + '_ {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }
}

/// Has the daemon and the kernel listen; none: the kernel alone does. The daemon is asked first, so
/// that a connection that comes from now on is not the kernel's.
pub(super) fn listen(session: &Session, kernel: &OwnedFd) -> io::Result<Option<Socket>> {
    let ours = match session.listen(kernel.as_fd(), BACKLOG) {
        Ok(Outcome::Ours(socket)) => Some(socket),
        Ok(Outcome::Errno(errno)) => return Err(errno.into()),
        Ok(Outcome::Kernel(_)) => None,
        Err(AttachError::System(error)) => return Err(error.errno().into()),
        Err(_) => {
            session.fallback(kernel.as_fd(), FallbackReason::DaemonGone);
            None
        }
    };
    // If this fails the socket is closed, and ours with it.
    rustix::net::listen(kernel, BACKLOG as i32)?;
    Ok(ours)
}

/// Takes a connection from a listener's backlog, if there is one. It stays there when there is no
/// descriptor for it.
pub(super) fn accept(listener: &Socket, local: SocketAddr) -> Result<Option<Named>, Errno> {
    if !listener.readiness().contains(Readiness::IN) {
        return Ok(None);
    }
    let fd = kernel::open(local, SocketType::STREAM)?;
    match listener.accept() {
        Ok(socket) => Named::new(socket, fd).map(Some),
        // Without the daemon the kernel goes on alone.
        Err(Errno::AGAIN | Errno::INVAL | Errno::CONNRESET | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        if let Some(ours) = &self.ours {
            ours.socket.close();
        }
    }
}

impl AsFd for TcpListener {
    /// The kernel's listener.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel.as_fd()
    }
}
