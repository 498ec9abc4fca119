//! getsockname(2), getpeername(2) and sockatmark(3).

use std::net::SocketAddr;

use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;

use crate::entry::Held;
use crate::entry::file::{File, Kind};
use crate::process::lookup;
use crate::system::{address, outcome, real, route};

/// getsockname(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn getsockname(fd: c_int, to: *mut sockaddr, bytes: *mut socklen_t) -> c_int {
    if let Some(held) = lookup::socket(fd)
        && let Some(file) = held.file()
        && let Some(address) = own_address(file)
    {
        // SAFETY: the caller's promise.
        return outcome::done(unsafe { address::write(address, file.family, to, bytes) });
    }
    // A listener's and a UDP socket's are the kernel's too.
    // SAFETY: the caller's arguments.
    unsafe { real::getsockname(fd, to, bytes) }
}

/// The address that ours knows better than the kernel's half, which may be bound to any.
fn own_address(file: &File) -> Option<SocketAddr> {
    let is_chosen = match file.kind {
        Kind::Stream => true,
        Kind::Listener => false,
        Kind::Datagram => file.socket.peer_address().is_some(),
    };
    let address = file.socket.local_address().filter(|_| is_chosen)?;
    if file.kind == Kind::Stream || !address.ip().is_unspecified() {
        return Some(address);
    }
    // Connected, a socket on all addresses has the one that leads there.
    let source = route::source_towards(file.family, file.socket.peer_address()?)?;
    Some(SocketAddr::new(source, address.port()))
}

/// getpeername(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn getpeername(fd: c_int, to: *mut sockaddr, bytes: *mut socklen_t) -> c_int {
    let Some(held) = lookup::socket(fd) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::getpeername(fd, to, bytes) };
    };
    // Whether the program has asked what became of its attempt does not matter: the peer has
    // answered. A connection that is over has none any more.
    let has_peer = |file: &&File| match file.kind {
        Kind::Stream => file.socket.is_connected(),
        Kind::Datagram => true,
        Kind::Listener => false,
    };
    let peer = held.file().filter(has_peer);
    let result = match peer.and_then(|file| Some((file.family, file.socket.peer_address()?))) {
        // SAFETY: the caller's promise.
        Some((family, address)) => unsafe { address::write(address, family, to, bytes) },
        None => Err(Errno::NOTCONN),
    };
    outcome::done(result)
}

/// sockatmark(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sockatmark(fd: c_int) -> c_int {
    let held = lookup::socket(fd);
    let stream = held.as_ref().and_then(Held::file).filter(|file| file.kind == Kind::Stream);
    match stream {
        Some(file) => c_int::from(file.socket.at_mark()),
        // SAFETY: the caller's argument.
        None => unsafe { real::sockatmark(fd) },
    }
}
