//! A UDP socket with the calls of `std::net::UdpSocket`.

use std::io;
use std::net::{SocketAddr, UdpSocket as KernelSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use attach::FallbackReason;
use rustix::event::Timespec;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use shm::sockets::SlotOption;

use super::kernel;
use super::offer::Outcome;
use super::poller::Poller;
use super::readiness::Readiness;
use super::session::Session;
use super::socket::Socket;
use super::tcp_stream::{blocking, set_timeout, timeout_of};

/// A thread that waits for a datagram looks at everything at this interval, if nothing happens.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A UDP socket: datagrams of the daemon's interfaces come and go through shared memory, those of
/// others (loopback) through the kernel.
#[derive(Debug)]
pub struct UdpSocket {
    /// Bound to the same address, and never blocks while the daemon serves the socket.
    kernel: KernelSocket,
    ours: Option<Ours>,
}

#[derive(Debug)]
struct Ours {
    socket: Socket,
    poller: Poller,
}

impl UdpSocket {
    /// Binds a socket to `address`, to receive the datagrams sent there; port 0: one that is free.
    ///
    /// # Errors
    /// As the kernel's bind(2).
    pub fn bind(session: &Session, address: SocketAddr) -> io::Result<Self> {
        Self::bind_for(session, address, None)
    }

    /// Binds a socket to `address` that exchanges datagrams with `remote` only.
    ///
    /// # Errors
    /// As the kernel's bind(2) and connect(2).
    pub fn connect(session: &Session, address: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        Self::bind_for(session, address, Some(remote))
    }

    fn bind_for(
        session: &Session,
        address: SocketAddr,
        remote: Option<SocketAddr>,
    ) -> io::Result<Self> {
        let fd = kernel::bound(address, SocketType::DGRAM)?;
        let socket = match session.udp(fd.as_fd(), remote) {
            Ok(Outcome::Ours(socket)) => Some(socket),
            Ok(Outcome::Errno(errno)) => return Err(errno.into()),
            Ok(Outcome::Kernel(_)) => None,
            Err(_) => {
                session.fallback(fd.as_fd(), FallbackReason::DaemonGone);
                None
            }
        };
        let kernel = KernelSocket::from(fd);
        let ours = match socket {
            None => None,
            Some(socket) => {
                socket.name(sockopt::socket_cookie(&kernel)?);
                kernel.set_nonblocking(true)?;
                let poller =
                    session.poller().map_err(|error| io::Error::other(error.to_string()))?;
                poller.add(&socket)?;
                Some(Ours { socket, poller })
            }
        };
        if let Some(remote) = remote {
            kernel.connect(remote)?;
        }
        Ok(Self { kernel, ours })
    }

    /// Whether the daemon serves it.
    pub fn is_accelerated(&self) -> bool {
        self.ours.is_some()
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.kernel.local_addr()
    }

    /// Sends a datagram to `to`; returns its bytes.
    ///
    /// # Errors
    /// As the kernel's sendto(2).
    pub fn send_to(&self, from: &[u8], to: SocketAddr) -> io::Result<usize> {
        match &self.ours {
            Some(ours) if !to.ip().is_loopback() && ours.socket.takes(from.len(), Some(to)) => ours
                .send(from, Some(to))
                .or_else(|error| unless_alone(error, || self.kernel.send_to(from, to))),
            _ => self.kernel.send_to(from, to),
        }
    }

    /// Sends a datagram to the peer that the socket is connected to; returns its bytes.
    ///
    /// # Errors
    /// As the kernel's send(2).
    pub fn send(&self, from: &[u8]) -> io::Result<usize> {
        match &self.ours {
            Some(ours) if ours.socket.takes(from.len(), None) => ours
                .send(from, None)
                .or_else(|error| unless_alone(error, || self.kernel.send(from))),
            _ => self.kernel.send(from),
        }
    }

    /// Waits for a datagram; returns how many bytes of it were taken, and the address that sent it.
    /// Bytes that do not fit are lost.
    ///
    /// # Errors
    /// As the kernel's recvfrom(2).
    pub fn recv_from(&self, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let Some(ours) = &self.ours else { return self.kernel.recv_from(to) };
        let received = self.receive_or_wait(ours, to);
        ours.poller.pass_on(|| ours.socket.readiness().contains(Readiness::IN));
        received
    }

    fn receive_or_wait(&self, ours: &Ours, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let timeout = timeout_of(&ours.socket, SlotOption::ReceiveTimeout);
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            match ours.socket.receive_from(to) {
                Ok(received) => {
                    let from = received.from.or(ours.socket.peer_address());
                    return Ok((received.bytes, from.ok_or(Errno::NOTCONN)?));
                }
                // Without the daemon the kernel goes on alone.
                Err(Errno::AGAIN | Errno::NETDOWN | Errno::CONNRESET) => {}
                // In a signal's handler that has interrupted such a call of its own thread.
                Err(Errno::DEADLK) => return Err(Errno::AGAIN.into()),
                Err(error) => return Err(error.into()),
            }
            match self.kernel.recv_from(to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let may_wait = ours.socket.flags() & OFlags::NONBLOCK.bits() == 0;
            if !may_wait || left == Some(Duration::ZERO) {
                return Err(Errno::AGAIN.into());
            }
            let most = left.unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
            let most =
                Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
            ours.poller.sleep_beside(&self.kernel, &most)?;
        }
    }

    /// Waits for a datagram from the peer that the socket is connected to; returns how many bytes
    /// of it were taken.
    ///
    /// # Errors
    /// As the kernel's recv(2).
    pub fn recv(&self, to: &mut [u8]) -> io::Result<usize> {
        self.recv_from(to).map(|(bytes, _)| bytes)
    }

    /// Calls that would wait fail with WouldBlock.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_nonblocking(&self, is_on: bool) -> io::Result<()> {
        match &self.ours {
            Some(ours) => {
                ours.socket.set_flags(if is_on { OFlags::NONBLOCK.bits() } else { 0 });
                Ok(())
            }
            None => self.kernel.set_nonblocking(is_on),
        }
    }

    /// How long a receive waits; `None`: without end. SO_RCVTIMEO of socket(7).
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.ours {
            Some(ours) => set_timeout(&ours.socket, SlotOption::ReceiveTimeout, timeout),
            None => self.kernel.set_read_timeout(timeout),
        }
    }
}

impl Ours {
    fn send(&self, from: &[u8], to: Option<SocketAddr>) -> io::Result<usize> {
        let socket = &self.socket;
        blocking(socket, Readiness::OUT, SlotOption::SendTimeout, || socket.send_to(from, to))
    }
}

/// Without the daemon, and within this host, the kernel goes on alone.
fn unless_alone(
    error: io::Error,
    by_kernel: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    match Errno::from_io_error(&error) {
        Some(Errno::NETDOWN | Errno::CONNRESET | Errno::HOSTUNREACH) => by_kernel(),
        _ => Err(error),
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        if let Some(ours) = &self.ours {
            ours.socket.close();
        }
    }
}

impl AsFd for UdpSocket {
    /// The kernel's socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel.as_fd()
    }
}
