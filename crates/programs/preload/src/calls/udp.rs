//! bind(2) and connect(2) of UDP sockets, and how they become ours: when they get a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use calisto_client::sockets::{FallbackReason, Outcome};
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;

use crate::calls::{datagram, fallback, inherit, twins};
use crate::entry::file::{File, Kind};
use crate::entry::{Body, Held, descriptors, own_code};
use crate::process::{lookup, say, session};
use crate::system::{address, copy, faults, fork, kernel_socket, outcome, real, route};

/// bind(2): a UDP socket that is bound can receive, so this is when it is offered.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn bind(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int {
    let is_connection = |held: Held| {
        held.file().is_some_and(|file| file.kind == Kind::Stream && !file.socket.is_over())
    };
    if lookup::socket(fd).is_some_and(is_connection) {
        // The kernel does not know that it is connected.
        // SAFETY: the caller's arguments.
        return outcome::failed(unsafe { refusal(fd, address, bytes) });
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { real::bind(fd, address, bytes) };
    if result == 0 && descriptors::is_fresh(fd) {
        descriptors::is_new(fd);
    }
    if result == 0 && descriptors::is_kernels(fd) && !kernel_socket::is_stream(fd) {
        outcome::unheard(|| fallback::tell(fd));
    }
    if result == 0 && descriptors::is_plain(fd) && !fork::is_borrowed() {
        let offered = outcome::unheard(|| match kernel_socket::kind_of(fd) {
            Some((family, false)) => open(fd, family, None).map(drop),
            _ => Ok(()),
        });
        if let Err(errno) = offered {
            // It has its port, and is refused again when it sends.
            descriptors::set_fresh(fd);
            return outcome::failed(errno);
        }
    }
    result
}

/// Why a connection cannot be bound: that it is one comes last, as `__inet_bind` of Linux has it.
///
/// # Safety
/// Reading the address is the program's wish.
unsafe fn refusal(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> Errno {
    let mut own = [0_u8; size_of::<libc::sockaddr_storage>()];
    let Some(place) = own.get_mut(..bytes as usize) else { return Errno::INVAL };
    faults::watch();
    // SAFETY: the caller's promise; there is room for that many.
    if let Err(errno) = unsafe { copy::copy(place.as_mut_ptr(), address.cast(), place.len()) } {
        return errno;
    }
    // Of the port nothing is asked: no other one is to find it taken meanwhile.
    own[2..4].fill(0);
    let family = kernel_socket::number(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
    let family = family.unwrap_or(libc::AF_INET);
    // SAFETY: plain numbers.
    let scout = unsafe { real::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if scout < 0 {
        return Errno::INVAL;
    }
    // SAFETY: an address of ours.
    let bound = outcome::of(unsafe { real::bind(scout, own.as_ptr().cast(), bytes) });
    // SAFETY: it is ours.
    unsafe { real::close(scout) };
    bound.err().unwrap_or(Errno::INVAL)
}

/// A UDP socket without a port sends its first datagram: the kernel would give it a port now, and
/// so do we, for it can receive from then on.
///
/// # Errors
/// This user may not.
///
/// # Safety
/// Reading the address is the program's wish.
pub(crate) unsafe fn begin(
    fd: c_int,
    address: *const sockaddr,
    bytes: socklen_t,
) -> Result<(), Errno> {
    if fork::is_borrowed() || address.is_null() {
        return Ok(());
    }
    faults::watch();
    // SAFETY: the caller's promise.
    let to = unsafe { address::read(address, bytes) };
    let (Ok(Some(to)), Some((family, false))) = (to, kernel_socket::kind_of(fd)) else {
        return Ok(());
    };
    // SAFETY: the caller's promise; it could be read.
    let is_foreign = unsafe { address::is_foreign(address, bytes, family) };
    if is_foreign != Ok(false) || !address::is_ours(to) {
        return Ok(());
    }
    descriptors::is_new(fd);
    let everywhere: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    let (own, own_bytes) = address::storage(SocketAddr::new(everywhere, 0), family);
    outcome::unheard(|| {
        // SAFETY: an address of ours. A socket that has a port refuses, and keeps it.
        unsafe { real::bind(fd, (&raw const own).cast(), own_bytes as socklen_t) };
        // Refused, it is refused the next time too.
        open(fd, family, None).map(drop).inspect_err(|_| descriptors::set_fresh(fd))
    })
}

/// Offers a UDP socket; true: connected as asked.
///
/// # Errors
/// This user may not.
pub(crate) fn open(fd: c_int, family: c_int, remote: Option<SocketAddr>) -> Result<bool, Errno> {
    let Some(session) = session::get() else { return Ok(false) };
    // SAFETY: it was a socket a moment ago.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    if fallback::is_kept(session, fd) {
        return Ok(false);
    }
    if remote.is_some_and(|remote| !bind_towards(fd, family, remote)) {
        // The kernel refuses it, and tells the program why: that leaves nothing to it.
        return Ok(false);
    }
    if !is_plain_udp(fd) {
        say::fallback(FallbackReason::UnsupportedOption);
        own_code::run(|| session.fallback(descriptor, FallbackReason::UnsupportedOption));
        return Ok(false);
    }
    match own_code::run(|| session.udp(descriptor, remote)) {
        Ok(Outcome::Ours(socket)) => {
            let file = File::new(socket, Kind::Datagram, family);
            file.set_nonblocking(kernel_socket::is_nonblocking(fd));
            inherit::from_kernel(fd, &file);
            let held = descriptors::install(fd, Body::Socket(file));
            held.iter().for_each(|held| twins::follow(fd, held));
            Ok(held.is_some())
        }
        Ok(Outcome::Kernel(reason)) => {
            say::fallback(reason);
            Ok(false)
        }
        Ok(Outcome::Errno(errno)) => Err(errno),
        Err(error) => {
            say::no_daemon(&error);
            Ok(false)
        }
    }
}

/// Gives a socket that has no port one, and the address that it will send from: replies must find
/// it. False: there is no way to that peer, as resolvers find out when they sort addresses.
fn bind_towards(fd: c_int, family: c_int, remote: SocketAddr) -> bool {
    let Some(own) = route::source_towards(family, remote) else { return false };
    let (address, bytes) = address::storage(SocketAddr::new(own, 0), family);
    // SAFETY: an address of ours. A socket that has a port refuses, and keeps it.
    unsafe { real::bind(fd, (&raw const address).cast(), bytes as socklen_t) };
    true
}

/// Whether the program wants nothing of it that only the kernel does.
fn is_plain_udp(fd: c_int) -> bool {
    kernel_socket::number(fd, libc::SOL_SOCKET, libc::SO_BROADCAST).is_none_or(|value| value == 0)
}

/// connect(2) on a UDP socket that is ours: it is offered anew, with its peer.
///
/// # Safety
/// Reading the address is the program's wish.
pub(crate) unsafe fn connect(
    fd: c_int,
    held: &Held,
    address: *const sockaddr,
    bytes: socklen_t,
) -> Option<Result<(), Errno>> {
    let family = held.file()?.family;
    // SAFETY: the caller's promise.
    match unsafe { address::is_foreign(address, bytes, family) } {
        // Refused, it leaves the socket as it is.
        Ok(true) => return None,
        Ok(false) => {}
        Err(errno) => return Some(Err(errno)),
    }
    // SAFETY: the caller's promise.
    let remote = match unsafe { address::read(address, bytes) } {
        Ok(remote) => remote,
        Err(errno) => return Some(Err(errno)),
    };
    let file = held.file()?;
    if remote.is_some_and(|remote| !datagram::leads_to(fd, file, remote)) {
        // Refused, it leaves the socket as it is.
        return None;
    }
    twins::let_go(fd);
    crate::calls::close::forget(fd);
    let remote = remote.filter(|remote| !address::is_hopeless(*remote))?;
    connected(fd, family, remote)
}

/// Offers a UDP socket with its peer, for connect(2); nothing: the kernel is to do it.
pub(crate) fn connected(fd: c_int, family: c_int, remote: SocketAddr) -> Option<Result<(), Errno>> {
    match open(fd, family, Some(remote)) {
        Ok(true) => Some(Ok(())),
        Ok(false) => None,
        Err(errno) => {
            descriptors::set_fresh(fd);
            Some(Err(errno))
        }
    }
}
