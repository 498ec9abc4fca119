//! TCP sockets of this kernel, watched by epoll.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use base::Nanos;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Network, Stream};
use crate::Error;
use crate::transport::kernel::raise_descriptor_limit;

/// Events of one call.
const EVENTS_MAX: usize = 64;

/// The kernel.
pub struct Kernel {
    epoll: OwnedFd,
    source: Option<IpAddr>,
}

impl Kernel {
    /// For that many connections, which come from `source`.
    ///
    /// # Errors
    /// Too few descriptors are allowed.
    pub fn new(connections: u32, source: Option<IpAddr>) -> Result<Self, Error> {
        raise_descriptor_limit(u64::from(connections))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| Error::io("make an epoll set", &errno.into()))?;
        Ok(Self { epoll, source })
    }
}

impl Network for Kernel {
    type Stream = TcpStream;

    fn connect(&mut self, number: usize, target: SocketAddr) -> io::Result<TcpStream> {
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if let Some(source) = self.source {
            rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
        }
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(number as u64), flags)?;
        match rustix::net::connect(&socket, &target) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
            Err(errno) => Err(errno.into()),
        }
    }

    #[inline]
    fn ready(&mut self, found: &mut Vec<usize>) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        // EINTR and nothing ready are the same here: look again next turn.
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&zero)) {
            found.extend(events.iter().map(|event| event.data.u64() as usize));
        }
    }

    fn wait(&mut self, timeout: Nanos) {
        sys::poll::wait_readable(self.epoll.as_fd(), timeout);
    }

    fn describe(&self) -> String {
        let source = self.source.map_or(String::new(), |source| format!(" from {source}"));
        format!("the kernel{source}")
    }
}

impl Stream for TcpStream {
    #[inline]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Read::read(self, to)
    }

    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        // Rust's programs ignore SIGPIPE: a connection that is over is an error here.
        Write::write(self, from)
    }

    fn connected(&mut self) -> io::Result<()> {
        match self.take_error()? {
            Some(error) => Err(error),
            // ENOTCONN while it lasts.
            None => self.peer_addr().map(drop),
        }
    }
}
