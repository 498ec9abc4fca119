//! Keeps a TCP port from others in the kernel while a connection of ours uses it.
//!
//! A connection outlives the socket that its program closed: it has bytes to send, and TIME_WAIT to
//! wait. The kernel does not know of it, and would give its port to the next who asks. A guard is a
//! kernel socket, bound and never connected, that holds the port as a connection of the kernel's
//! own would: programs that set SO_REUSEADDR may bind and listen there, others get EADDRINUSE, and
//! the kernel chooses it for nobody. (UDP needs none: nothing of a UDP socket outlives it.)

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::SysError;
use crate::socket::{bind, canonical, local_address};

/// A TCP port of one address that no other process gets until this is dropped.
#[derive(Debug)]
pub struct PortGuard {
    _fd: OwnedFd,
    address: SocketAddr,
}

impl PortGuard {
    /// Holds a port in the calling thread's network namespace, of which no socket is bound there,
    /// or only ones that allow to bind beside them.
    ///
    /// # Errors
    /// EADDRINUSE: a socket listens there, or is bound and does not share. EADDRNOTAVAIL: the
    /// host does not have the address. Port 0 is EINVAL.
    pub fn hold(address: SocketAddr) -> Result<Self, SysError> {
        let address = canonical(address);
        let failed = |errno| SysError::new(format!("hold the TCP port {address}"), errno, "");
        if address.port() == 0 {
            return Err(failed(rustix::io::Errno::INVAL));
        }
        let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let fd = rustix::net::socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            Some(ipproto::TCP),
        )
        .map_err(failed)?;
        sockopt::set_socket_reuseaddr(&fd, true).map_err(failed)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true).map_err(failed)?;
        }
        bind(fd.as_fd(), address)?;
        Ok(Self { _fd: fd, address })
    }

    /// Holds the port that the TCP socket `other` is bound to and does not listen on. Its
    /// SO_REUSEADDR is what it was.
    ///
    /// # Errors
    /// As [`Self::hold`]; EINVAL when it is not bound.
    pub fn beside(other: BorrowedFd<'_>) -> Result<Self, SysError> {
        let address = local_address(other)?;
        let failed = |errno| SysError::new(format!("share the TCP port {address}"), errno, "");
        // The kernel looks at the option of both, and only when the second is bound.
        let shares = sockopt::socket_reuseaddr(other).map_err(failed)?;
        sockopt::set_socket_reuseaddr(other, true).map_err(failed)?;
        let guard = Self::hold(address);
        sockopt::set_socket_reuseaddr(other, shares).map_err(failed)?;
        guard
    }

    /// The port that is held, with its address: never an IPv4-mapped one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests;
