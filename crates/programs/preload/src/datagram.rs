//! UDP: what goes through the data plane, and what the kernel's half of the same socket serves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use calisto_client::sockets::{FallbackReason, Outcome, Readiness, ReceiveFlags};
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;

use crate::entry::{Body, Held};
use crate::file::{File, Kind};
use crate::real;
use crate::receive::Served;
use crate::spans::Spans;
use crate::wait::{self, Ended};
use crate::{
    connect, descriptors, epoll, faults, inherit, kernels, life, names, outcome, receive, say,
    session, sockets,
};

/// What came.
pub(crate) struct Received {
    /// What the call returns: bytes that were copied, or with MSG_TRUNC that there were.
    pub(crate) returned: usize,
    /// There were more.
    pub(crate) is_cut: bool,
    /// From whom.
    pub(crate) from: Option<SocketAddr>,
}

/// bind(2): a UDP socket that is bound can receive, so this is when it is offered.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn bind(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { real::bind(fd, address, bytes) };
    if result == 0 && descriptors::is_fresh(fd) {
        descriptors::is_new(fd);
    }
    if result == 0 && descriptors::is_kernels(fd) && !sockets::is_stream(fd) {
        outcome::unheard(|| kernels::tell(fd));
    }
    if result == 0 && descriptors::is_plain(fd) && !life::is_borrowed() {
        let offered = outcome::unheard(|| match sockets::kind_of(fd) {
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

/// A UDP socket without a port sends its first datagram: the kernel would give it a port now, and so do
/// we, for it can receive from then on.
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
    if life::is_borrowed() || address.is_null() {
        return Ok(());
    }
    faults::watch();
    // SAFETY: the caller's promise.
    let to = unsafe { names::read(address, bytes) };
    let (Ok(Some(to)), Some((family, false))) = (to, sockets::kind_of(fd)) else { return Ok(()) };
    if !is_ours(to) {
        return Ok(());
    }
    descriptors::is_new(fd);
    let everywhere: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    let (own, own_bytes) = names::storage(SocketAddr::new(everywhere, 0), family);
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
    if sockets::is_kept(session, fd) {
        return Ok(false);
    }
    if let Some(remote) = remote {
        bind_towards(fd, family, remote);
    }
    if !is_plain_udp(fd, family) {
        say::fallback(FallbackReason::UnsupportedOption);
        session::inside(|| session.fallback(descriptor, FallbackReason::UnsupportedOption));
        return Ok(false);
    }
    match session::inside(|| session.udp(descriptor, remote)) {
        Ok(Outcome::Ours(socket)) => {
            let file = File::new(socket, Kind::Datagram, family);
            file.set_nonblocking(sockets::is_nonblocking(fd));
            inherit::from_kernel(fd, &file);
            let held = descriptors::install(fd, Body::Socket(file));
            held.iter().for_each(|held| epoll::moves(fd, held));
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

/// Gives a socket that has no port one, and the address that it will send from: replies must find it.
fn bind_towards(fd: c_int, family: c_int, remote: SocketAddr) {
    if let Some(own) = source_towards(family, remote) {
        let (address, bytes) = names::storage(SocketAddr::new(own, 0), family);
        // SAFETY: an address of ours. A socket that has a port refuses, and keeps it.
        unsafe { real::bind(fd, (&raw const address).cast(), bytes as socklen_t) };
    }
}

/// The address that a socket on all addresses sends from when it is connected.
pub(crate) fn source_towards(family: c_int, remote: SocketAddr) -> Option<IpAddr> {
    let (peer, peer_bytes) = names::storage(remote, family);
    // SAFETY: plain numbers.
    let scout = unsafe { real::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    // The kernel chooses the address when a socket is connected; ours stays unconnected.
    // SAFETY: an address of ours. No packet is sent.
    let found = unsafe { real::connect(scout, (&raw const peer).cast(), peer_bytes as socklen_t) };
    let (mut own, mut bytes) = (peer, size_of::<libc::sockaddr_storage>() as socklen_t);
    // SAFETY: `own` has so much room.
    let is_known = found == 0
        && unsafe { real::getsockname(scout, (&raw mut own).cast(), &raw mut bytes) } == 0;
    // SAFETY: it is ours, or no descriptor.
    unsafe { real::close(scout) };
    // SAFETY: the kernel has written it.
    let own = unsafe { names::read((&raw const own).cast(), bytes) };
    own.ok().flatten().filter(|_| is_known).map(|own| own.ip())
}

/// Whether the program wants nothing beside the bytes that only the kernel can tell.
fn is_plain_udp(fd: c_int, family: c_int) -> bool {
    let beside: &[(c_int, c_int)] = &[
        (libc::IPPROTO_IP, libc::IP_PKTINFO),
        (libc::IPPROTO_IP, libc::IP_RECVERR),
        (libc::IPPROTO_IP, libc::IP_RECVTTL),
        (libc::IPPROTO_IP, libc::IP_RECVTOS),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
        (libc::SOL_SOCKET, libc::SO_BROADCAST),
    ];
    let of_v6: &[(c_int, c_int)] = &[(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)];
    let of_v6 = if family == libc::AF_INET6 { of_v6 } else { &[] };
    beside
        .iter()
        .chain(of_v6)
        .all(|&(level, name)| sockets::number(fd, level, name).is_none_or(|value| value == 0))
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
    let remote = match unsafe { names::read(address, bytes) } {
        Ok(remote) => remote,
        Err(errno) => return Some(Err(errno)),
    };
    epoll::moves_back(fd);
    crate::close::forget(fd);
    let remote = remote.filter(|remote| !connect::is_hopeless(*remote))?;
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

/// Receives a datagram of either half.
pub(crate) fn receive(fd: c_int, held: &Held, spans: &mut Spans, flags: c_int) -> Served<Received> {
    let Some(file) = held.file() else { return Served::Elsewhere };
    let asked =
        ReceiveFlags { peek: flags & libc::MSG_PEEK != 0, truncate: flags & libc::MSG_TRUNC != 0 };
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let deadline = wait::deadline(file.receive_timeout());
    loop {
        match file.socket.receive_from_with(asked, |piece| spans.fill(piece)) {
            Ok(got) => {
                return Served::Done(Ok(Received {
                    returned: got.bytes,
                    is_cut: got.is_cut,
                    from: got.from,
                }));
            }
            Err(Errno::AGAIN) => {}
            // The daemon has ended: the kernel's half goes on alone.
            Err(Errno::NETDOWN | Errno::CONNRESET | Errno::NOTCONN | Errno::CONNABORTED) => {}
            Err(errno) => return Served::Done(Err(outcome::in_handler(errno))),
        }
        match of_kernel(fd, spans, flags) {
            Err(Errno::AGAIN) => {}
            other => return Served::Done(other),
        }
        if !may_wait {
            return Served::Done(Err(Errno::AGAIN));
        }
        match wait::on(fd, held, Readiness::IN, deadline) {
            Ok(Ended::Look) => {}
            Ok(Ended::Replaced) => return Served::Done(Err(Errno::BADF)),
            Ok(Ended::TimedOut) => return Served::Done(Err(Errno::AGAIN)),
            Err(errno) => return Served::Done(Err(errno)),
        }
    }
}

/// What has come by the kernel, without waiting.
fn of_kernel(fd: c_int, spans: &mut Spans, flags: c_int) -> Result<Received, Errno> {
    // SAFETY: all zero are a valid address and header.
    let (mut name, mut header) =
        unsafe { std::mem::zeroed::<(libc::sockaddr_storage, libc::msghdr)>() };
    let mut payload = vec![0_u8; spans.left()];
    let mut part = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as socklen_t;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    let flags = flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    // SAFETY: everything that it names is ours and lives.
    let returned = outcome::of_bytes(unsafe { real::recvmsg(fd, &raw mut header, flags) })?;
    let copied = returned.min(payload.len());
    spans.put(&payload[..copied])?;
    // SAFETY: the kernel has written so much of it.
    let from = unsafe { names::read((&raw const name).cast(), header.msg_namelen) }.ok().flatten();
    let is_cut = header.msg_flags & libc::MSG_TRUNC != 0;
    Ok(Received { returned, is_cut, from })
}

/// recvfrom(2) on a UDP socket of ours.
///
/// # Safety
/// Writing at both places is the program's wish.
pub(crate) unsafe fn recvfrom(
    fd: c_int,
    held: &Held,
    spans: &mut Spans,
    flags: c_int,
    address: *mut sockaddr,
    address_bytes: *mut socklen_t,
) -> Served<usize> {
    let family = held.file().map_or(libc::AF_INET, |file| file.family);
    match receive(fd, held, spans, flags) {
        Served::Done(Ok(received)) => {
            // SAFETY: the caller's promise.
            let named = unsafe { receive::put_sender(&received, family, address, address_bytes) };
            Served::Done(named)
        }
        Served::Done(Err(errno)) => Served::Done(Err(errno)),
        Served::Elsewhere => Served::Elsewhere,
    }
}

/// Sends a datagram: through the data plane, and by the kernel where that does not lead.
pub(crate) fn send(
    fd: c_int,
    held: &Held,
    spans: &mut Spans,
    to: Option<SocketAddr>,
    flags: c_int,
) -> Served<usize> {
    let Some(file) = held.file() else { return Served::Elsewhere };
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let deadline = wait::deadline(file.send_timeout());
    loop {
        let mut attempt = *spans;
        let bytes = attempt.left();
        if bytes > file.socket.payload_max() {
            return Served::Done(by_kernel(fd, file, spans, to, flags));
        }
        match file.socket.send_to_with(bytes, to, |piece| attempt.empty(piece)) {
            // Where there is no way for us there may be one for the kernel, whose socket has the
            // same port.
            Err(
                Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTUNREACH
                | Errno::NOTCONN
                | Errno::CONNRESET
                | Errno::CONNABORTED,
            ) => return Served::Done(by_kernel(fd, file, spans, to, flags)),
            Err(Errno::AGAIN) if may_wait => {}
            other => return Served::Done(other.map_err(outcome::in_handler)),
        }
        match wait::on(fd, held, Readiness::OUT, deadline) {
            Ok(Ended::Look) => {}
            Ok(Ended::Replaced) => return Served::Done(Err(Errno::BADF)),
            Ok(Ended::TimedOut) => return Served::Done(Err(Errno::AGAIN)),
            Err(errno) => return Served::Done(Err(errno)),
        }
    }
}

/// Sends a datagram by the kernel's half, which has the same port, and cuts what is too long for a packet.
fn by_kernel(
    fd: c_int,
    file: &File,
    spans: &mut Spans,
    to: Option<SocketAddr>,
    flags: c_int,
) -> Result<usize, Errno> {
    let to = to.or_else(|| file.socket.peer_address()).ok_or(Errno::DESTADDRREQ)?;
    let (address, address_bytes) = names::storage(to, file.family);
    let mut payload = vec![0_u8; spans.left()];
    spans.take(&mut payload)?;
    let (from, count) = (payload.as_ptr().cast(), payload.len());
    // SAFETY: payload and address are ours.
    outcome::of_bytes(unsafe {
        let name = (&raw const address).cast();
        real::sendto(fd, from, count, flags, name, address_bytes as socklen_t)
    })
}

/// sendto(2) on a UDP socket of ours.
///
/// # Safety
/// Reading the address is the program's wish.
pub(crate) unsafe fn sendto(
    fd: c_int,
    held: &Held,
    spans: &mut Spans,
    flags: c_int,
    address: *const sockaddr,
    address_bytes: socklen_t,
) -> Served<usize> {
    if address.is_null() || address_bytes == 0 {
        return send(fd, held, spans, None, flags);
    }
    // SAFETY: the caller's promise.
    match unsafe { names::read(address, address_bytes) } {
        Err(errno) => Served::Done(Err(errno)),
        Ok(Some(to)) if is_ours(to) => send(fd, held, spans, Some(to), flags),
        // Many, or nonsense: the kernel's.
        Ok(_) => Served::Elsewhere,
    }
}

fn is_ours(to: SocketAddr) -> bool {
    let is_loopback = match to.ip() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_loopback(),
    };
    !is_loopback && !to.ip().is_multicast() && to.port() != 0
}
