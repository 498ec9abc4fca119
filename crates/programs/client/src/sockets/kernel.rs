//! The kernel sockets behind ours: each of our sockets has one, which keeps its port and its
//! identity.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::socket::Socket;

/// A kernel socket for an address of this family.
pub(crate) fn open(family_of: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if family_of.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
}

/// One that is bound to `address`.
pub(crate) fn bound(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let fd = open(address, kind)?;
    if kind == SocketType::STREAM {
        // As std does: a port may be taken again while old connections linger.
        sockopt::set_socket_reuseaddr(&fd, true)?;
    }
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

/// Where it is bound.
pub(crate) fn address(fd: impl AsFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(rustix::net::getsockname(fd)?)
}

/// One of ours and the kernel socket that stands for it; closed when this drops.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) socket: Socket,
    pub(crate) fd: OwnedFd,
}

impl Named {
    /// `fd` stands for `socket` from now on, so that the daemon closes it when this process ends.
    pub(crate) fn new(socket: Socket, fd: OwnedFd) -> Result<Self, Errno> {
        let cookie = sockopt::socket_cookie(&fd)?;
        socket.name(cookie);
        Ok(Self { socket, fd })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.socket.close();
    }
}
