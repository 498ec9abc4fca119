//! What a socket is, by its descriptor: its identity, its kind, its place; and how to give it one.
//!
//! For sockets that somebody else made and we only hold a copy of. What is set here on the way to
//! something else is set back.

use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::sockopt;

use crate::SysError;
use crate::error::last_errno;

/// SO_NETNS_COOKIE of Linux 5.14; the same on every architecture that we run on.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// What socket(2) was asked for, as numbers of that call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// AF_INET, AF_INET6, ...
    pub domain: i32,
    /// SOCK_STREAM, SOCK_DGRAM, ... without flags.
    pub kind: i32,
    /// IPPROTO_TCP, IPPROTO_UDP, ..., as the kernel chose it where zero was asked for.
    pub protocol: i32,
}

impl Kind {
    /// Whether it is of IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        matches!(self.domain, libc::AF_INET | libc::AF_INET6)
    }

    /// Whether it is of IPv6, and so may carry IPv4 as well.
    pub fn is_ipv6(&self) -> bool {
        self.domain == libc::AF_INET6
    }

    /// Whether it is a TCP socket and not one of MPTCP or another protocol that also streams.
    pub fn is_tcp(&self) -> bool {
        self.is_ip() && (self.kind, self.protocol) == (libc::SOCK_STREAM, libc::IPPROTO_TCP)
    }

    /// Whether it is a UDP socket.
    pub fn is_udp(&self) -> bool {
        self.is_ip() && (self.kind, self.protocol) == (libc::SOCK_DGRAM, libc::IPPROTO_UDP)
    }
}

/// The number that this socket, with all its copies, has for as long as the machine runs
/// (SO_COOKIE).
///
/// # Errors
/// It is no socket.
pub fn cookie_of(socket: BorrowedFd<'_>) -> Result<u64, SysError> {
    sockopt::socket_cookie(socket)
        .map_err(|errno| SysError::new("read a socket's cookie", errno, "it may be no socket"))
}

/// The number in the links of /proc/PID/fd; used again after the socket's end.
///
/// # Errors
/// Never in practice.
pub fn inode_of(socket: BorrowedFd<'_>) -> Result<u64, SysError> {
    rustix::fs::fstat(socket)
        .map(|stat| stat.st_ino)
        .map_err(|errno| SysError::new("read a socket's inode", errno, ""))
}

/// The user that made it.
///
/// # Errors
/// Never in practice.
pub fn user_of(socket: BorrowedFd<'_>) -> Result<u32, SysError> {
    rustix::fs::fstat(socket)
        .map(|stat| stat.st_uid)
        .map_err(|errno| SysError::new("read whose a socket is", errno, ""))
}

/// The network namespace that the socket is in, as a number that is never used again.
///
/// # Errors
/// It is no socket, or the kernel is older than 5.14.
pub fn netns_cookie_of(socket: BorrowedFd<'_>) -> Result<u64, SysError> {
    let mut value = MaybeUninit::<u64>::zeroed();
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `value` has room for `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(SysError::last("read the cookie of a socket's namespace", ""));
    }
    // SAFETY: it was zero, and any bytes are a number.
    Ok(unsafe { value.assume_init() })
}

/// What it was made as.
///
/// # Errors
/// It is no socket.
pub fn kind_of(socket: BorrowedFd<'_>) -> Result<Kind, SysError> {
    let read = |name| {
        get_int(socket, libc::SOL_SOCKET, name)
            .map_err(|errno| SysError::new("read a socket's kind", errno, "it may be no socket"))
    };
    Ok(Kind {
        domain: read(libc::SO_DOMAIN)?,
        kind: read(libc::SO_TYPE)?,
        protocol: read(libc::SO_PROTOCOL)?,
    })
}

/// Its own address: port zero when it is not bound. An IPv4 address of an IPv6 socket stays as it
/// is there, IPv4-mapped.
///
/// # Errors
/// It is no IP socket.
pub fn local_address(socket: BorrowedFd<'_>) -> Result<SocketAddr, SysError> {
    rustix::net::getsockname(socket)
        .and_then(SocketAddr::try_from)
        .map_err(|errno| SysError::new("read a socket's address", errno, "it may be no IP socket"))
}

/// Binds it to `address` (port 0: one that the kernel chooses now, even if the program asked for
/// that to wait until it connects), and says where it is. An IPv4 address is IPv4-mapped for an
/// IPv6 socket. The program's options are what they were.
///
/// # Errors
/// As of bind(2): EADDRINUSE, EADDRNOTAVAIL, EINVAL when it is bound already, EACCES.
pub fn bind(socket: BorrowedFd<'_>, address: SocketAddr) -> Result<SocketAddr, SysError> {
    let failed = |errno| SysError::new(format!("bind a socket to {address}"), errno, "");
    let kind = kind_of(socket)?;
    let place = match address.ip() {
        IpAddr::V4(v4) if kind.is_ipv6() => {
            SocketAddrV6::new(v4.to_ipv6_mapped(), address.port(), 0, 0).into()
        }
        _ => address,
    };
    let waits = get_int(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT).map_err(failed)?;
    let set = |value| set_int(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, value);
    if waits != 0 {
        set(0).map_err(failed)?;
    }
    let bound = rustix::net::bind(socket, &place);
    if waits != 0 {
        set(waits).map_err(failed)?;
    }
    bound.map_err(failed)?;
    local_address(socket)
}

/// Has it take packets of the interface of that number only; zero: of all (SO_BINDTOIFINDEX, Linux
/// 5.0).
///
/// # Errors
/// There is none. EPERM: it has one already, and CAP_NET_RAW is missing.
pub fn bind_to_interface(socket: BorrowedFd<'_>, interface: u32) -> Result<(), SysError> {
    /// The same on every architecture that we run on.
    const SO_BINDTOIFINDEX: libc::c_int = 62;
    set_int(socket, libc::SOL_SOCKET, SO_BINDTOIFINDEX, interface.cast_signed())
        .map_err(|errno| SysError::new("bind a socket to an interface", errno, ""))
}

/// The address as programs of the other family know it: IPv4 instead of IPv4-mapped.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::from((v4, v6.port())),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// Whether it takes IPv6 only; false for an IPv4 socket.
///
/// # Errors
/// It is no socket.
pub fn is_ipv6_only(socket: BorrowedFd<'_>) -> Result<bool, SysError> {
    if !kind_of(socket)?.is_ipv6() {
        return Ok(false);
    }
    sockopt::ipv6_v6only(socket)
        .map_err(|errno| SysError::new("read whether a socket is for IPv6 only", errno, ""))
}

/// An option whose value is an int.
pub(crate) fn get_int(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> Result<libc::c_int, Errno> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is an int, and `length` says so.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    if result == 0 { Ok(value) } else { Err(last_errno()) }
}

/// Sets such an option.
pub(crate) fn set_int(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    // SAFETY: the value is an int that lives as long as the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests;
