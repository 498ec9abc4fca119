//! Socket addresses as C has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rustix::io::Errno;

use crate::system::{copy, faults};

/// An address that the program gives; v4-mapped ones as IPv4. `None`: it is no internet address.
///
/// # Safety
/// Reading `bytes` there is the program's wish.
pub(crate) unsafe fn read(
    address: *const sockaddr,
    bytes: socklen_t,
) -> Result<Option<SocketAddr>, Errno> {
    let bytes = bytes as usize;
    if bytes < size_of::<libc::sa_family_t>() {
        return Ok(None);
    }
    // SAFETY: that many bytes are there, or it is an error.
    let family = c_int::from(unsafe { copy::get(address.cast::<libc::sa_family_t>())? });
    if family == libc::AF_INET && bytes >= size_of::<sockaddr_in>() {
        // SAFETY: likewise; any bytes are such an address.
        let v4 = unsafe { copy::get(address.cast::<sockaddr_in>())? };
        let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
        return Ok(Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port))));
    }
    // RFC 2133's shorter address has no scope.
    const WITHOUT_SCOPE: usize = size_of::<sockaddr_in6>() - size_of::<u32>();
    if family == libc::AF_INET6 && bytes >= WITHOUT_SCOPE {
        // SAFETY: all zero is an address.
        let mut v6 = unsafe { std::mem::zeroed::<sockaddr_in6>() };
        let room = bytes.min(size_of::<sockaddr_in6>());
        // SAFETY: `v6` has room for that many.
        unsafe { copy::copy((&raw mut v6).cast(), address.cast(), room)? };
        let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
        let port = u16::from_be(v6.sin6_port);
        return Ok(Some(match ip.to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), port),
            None => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)),
        }));
    }
    Ok(None)
}

/// An address that the program names beside other things, whoever heeds it: as
/// `move_addr_to_kernel` of Linux judges it.
///
/// # Errors
/// EINVAL: no address is that long. EFAULT: it cannot be read.
///
/// # Safety
/// Reading `bytes` there is the program's wish.
pub(crate) unsafe fn judge(address: *const sockaddr, bytes: socklen_t) -> Result<(), Errno> {
    if address.is_null() {
        return Ok(());
    }
    let count = bytes as usize;
    if count > size_of::<sockaddr_storage>() {
        return Err(Errno::INVAL);
    }
    faults::watch();
    let mut storage = [0_u8; size_of::<sockaddr_storage>()];
    // SAFETY: that many bytes are there, or it is an error; there is room for them.
    unsafe { copy::copy(storage.as_mut_ptr(), address.cast(), count) }
}

/// Whether an address that the program gives to a socket of IPv4 is one of IPv6, even an
/// IPv4-mapped one: the kernel's to refuse.
///
/// # Errors
/// EFAULT.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn is_foreign(
    address: *const sockaddr,
    bytes: socklen_t,
    socket_family: c_int,
) -> Result<bool, Errno> {
    if socket_family != libc::AF_INET || (bytes as usize) < size_of::<libc::sa_family_t>() {
        return Ok(false);
    }
    // SAFETY: the caller's promise: that many bytes are there, or it is an error.
    let family = unsafe { copy::get(address.cast::<libc::sa_family_t>())? };
    Ok(c_int::from(family) == libc::AF_INET6)
}

/// Writes an address as a socket of `family` shows it, cut to the caller's room, and its whole
/// length.
///
/// # Safety
/// Writing at both places is the program's wish.
pub(crate) unsafe fn write(
    address: SocketAddr,
    family: c_int,
    to: *mut sockaddr,
    bytes: *mut socklen_t,
) -> Result<(), Errno> {
    faults::watch();
    // SAFETY: the caller's promise.
    let room = unsafe { copy::get(bytes)? };
    if c_int::try_from(room).is_err() {
        return Err(Errno::INVAL);
    }
    let (storage, whole) = storage(address, family);
    // SAFETY: the caller's promise; `storage` is longer than any address.
    unsafe {
        copy::copy(to.cast(), (&raw const storage).cast(), whole.min(room as usize))?;
        copy::put(bytes, &(whole as socklen_t))
    }
}

/// An address as a socket of `family` shows it, and how long it is.
pub(crate) fn storage(address: SocketAddr, family: c_int) -> (sockaddr_storage, usize) {
    // SAFETY: all zero is a valid one.
    let mut storage = unsafe { std::mem::zeroed::<sockaddr_storage>() };
    let port = address.port().to_be();
    if family == libc::AF_INET {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        let to = (&raw mut storage).cast::<sockaddr_in>();
        // SAFETY: it has room for every kind of address.
        unsafe {
            (*to).sin_family = libc::AF_INET as libc::sa_family_t;
            (*to).sin_port = port;
            (*to).sin_addr.s_addr = u32::from(ip).to_be();
        }
        return (storage, size_of::<sockaddr_in>());
    }
    let (ip, scope) = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (Ipv6Addr::UNSPECIFIED, 0),
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
    };
    let to = (&raw mut storage).cast::<sockaddr_in6>();
    // SAFETY: it has room for every kind of address.
    unsafe {
        (*to).sin6_family = libc::AF_INET6 as libc::sa_family_t;
        (*to).sin6_port = port;
        (*to).sin6_addr.s6_addr = ip.octets();
        (*to).sin6_scope_id = scope;
    }
    (storage, size_of::<sockaddr_in6>())
}

/// Whether it is known without the daemon that the data plane does not lead there.
pub(crate) fn is_hopeless(remote: SocketAddr) -> bool {
    let ip = remote.ip();
    remote.port() == 0
        || ip.is_multicast()
        || ip.is_unspecified()
        || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast())
}

/// Whether a datagram to this address may go through the data plane: one of loopback, to a
/// neighbour by its link's own address, or to many, may not.
pub(crate) fn is_ours(to: SocketAddr) -> bool {
    let is_loopback = match to.ip() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_broadcast(),
        // That of a link says nothing without its interface, which only the kernel's half takes.
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
    };
    !is_loopback && !to.ip().is_multicast() && to.port() != 0
}
