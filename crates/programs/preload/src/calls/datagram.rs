//! Datagrams: what a socket of ours receives and sends, and what its kernel half does.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use calisto_client::sockets::{Outgoing, PAYLOAD_MAX, Readiness, ReceiveFlags, SocketOption};
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;

use crate::calls::beside::{self, Parts, Place};
use crate::calls::served::Served;
use crate::calls::spans::Spans;
use crate::entry::Held;
use crate::entry::file::File;
use crate::process::lookup;
use crate::system::{address, kernel_socket, outcome, real};
use crate::wait::deadline::Deadline;
use crate::wait::{self, Ended};

/// What came.
pub(crate) struct Received {
    /// What the call returns: bytes that were copied, or with MSG_TRUNC that there were.
    pub(crate) returned: usize,
    /// There were more.
    pub(crate) is_cut: bool,
    /// The address that sent it.
    pub(crate) from: Option<SocketAddr>,
    /// Bytes of the control messages that stand at the place for them.
    pub(crate) beside: usize,
    /// There were more of them.
    pub(crate) is_beside_cut: bool,
}

/// Receives a datagram of either half, and has what stands beside it written to `place`.
/// `after_some`: the call has received before, and an error that waits is left for the next one.
///
/// # Safety
/// Writing there is the program's wish.
pub(crate) unsafe fn receive(
    fd: c_int,
    held: &Held,
    spans: &mut Spans,
    place: Place,
    flags: c_int,
    after_some: bool,
) -> Served<Received> {
    let Some(file) = held.file() else { return Served::Elsewhere };
    if flags & libc::MSG_ERRQUEUE != 0 {
        return of_error_queue(file);
    }
    let asked = ReceiveFlags {
        peek: flags & libc::MSG_PEEK != 0,
        truncate: flags & libc::MSG_TRUNC != 0,
        join_bytes: beside::join_bytes(file, spans.left()),
        after_some,
    };
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let deadline = Deadline::of_option(file.receive_timeout());
    loop {
        if let Some(errno) = kernel_error(fd, file) {
            return Served::Done(Err(errno));
        }
        match file.socket.receive_from_with(asked, |piece| spans.fill(piece)) {
            Ok(got) => {
                let mut parts = Parts::at(place);
                // SAFETY: the caller's promise.
                unsafe { parts.tell(file, &got) };
                return Served::Done(Ok(Received {
                    returned: got.bytes,
                    is_cut: got.is_cut,
                    from: got.from,
                    beside: parts.bytes,
                    is_beside_cut: parts.is_cut,
                }));
            }
            Err(Errno::AGAIN) => {}
            // The daemon has ended: the kernel's half goes on alone.
            Err(Errno::NETDOWN | Errno::CONNRESET | Errno::NOTCONN | Errno::CONNABORTED) => {}
            Err(errno) => return Served::Done(Err(outcome::in_handler(errno))),
        }
        // SAFETY: the caller's promise.
        match unsafe { of_kernel(fd, spans, place, flags) } {
            Err(Errno::AGAIN) => {}
            other => return Served::Done(other),
        }
        if !may_wait {
            return Served::Done(Err(Errno::AGAIN));
        }
        if file.socket.readiness().contains(Readiness::RDHUP) {
            return Served::Done(Ok(Received {
                returned: 0,
                is_cut: false,
                from: None,
                beside: 0,
                is_beside_cut: false,
            }));
        }
        match wait::on(fd, held, Readiness::IN, deadline) {
            Ok(Ended::Look) => {}
            Ok(Ended::Replaced) if file.was_renewed() => {
                return match lookup::socket(fd) {
                    // SAFETY: the caller's promise.
                    Some(held) => unsafe { receive(fd, &held, spans, place, flags, after_some) },
                    None => Served::Elsewhere,
                };
            }
            Ok(Ended::Replaced) => return Served::Done(Err(Errno::BADF)),
            Ok(Ended::TimedOut) => return Served::Done(Err(Errno::AGAIN)),
            Err(errno) => return Served::Done(Err(errno)),
        }
    }
}

/// The queue of errors is at the kernel's half (IP_RECVERR). What is taken from it may leave
/// another one to be told by the next call.
pub(crate) fn of_error_queue<T>(file: &File) -> Served<T> {
    file.socket.expect_kernel_error();
    Served::Elsewhere
}

/// The error of the kernel's half, which comes before datagrams, and before anything is sent. It is
/// asked only if it may have one.
pub(crate) fn kernel_error(fd: c_int, file: &File) -> Option<Errno> {
    if !file.socket.may_have_kernel_error() {
        return None;
    }
    let code = kernel_socket::number(fd, libc::SOL_SOCKET, libc::SO_ERROR)?;
    (code != 0).then(|| Errno::from_raw_os_error(code))
}

/// What has come by the kernel, without waiting.
///
/// # Safety
/// Writing to `place` is the program's wish.
unsafe fn of_kernel(
    fd: c_int,
    spans: &Spans,
    place: Place,
    flags: c_int,
) -> Result<Received, Errno> {
    // SAFETY: all zero are a valid address and header.
    let (mut name, mut header) =
        unsafe { std::mem::zeroed::<(libc::sockaddr_storage, libc::msghdr)>() };
    let mut one = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    // Bytes of our half that found no place went wrong, and nothing is to come behind them.
    let (parts, count) = spans.untouched(&mut one).ok_or(Errno::FAULT)?;
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as socklen_t;
    (header.msg_iov, header.msg_iovlen) = (parts.cast_mut(), count);
    (header.msg_control, header.msg_controllen) = (place.start.cast(), place.bytes);
    let flags = flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    // SAFETY: the name is ours; what else it names is the program's.
    let returned = outcome::of_bytes(unsafe { real::recvmsg(fd, &raw mut header, flags) })?;
    // SAFETY: the kernel has written so much of it.
    let from =
        unsafe { address::read((&raw const name).cast(), header.msg_namelen) }.ok().flatten();
    Ok(Received {
        returned,
        is_cut: header.msg_flags & libc::MSG_TRUNC != 0,
        from,
        beside: header.msg_controllen,
        is_beside_cut: header.msg_flags & libc::MSG_CTRUNC != 0,
    })
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
    // SAFETY: nothing is written to nowhere.
    match unsafe { receive(fd, held, spans, Place::NOWHERE, flags, false) } {
        Served::Done(Ok(received)) => {
            // SAFETY: the caller's promise.
            let named = unsafe { put_sender(&received, family, address, address_bytes) };
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
    let how = of_socket(file, to);
    match send_as(fd, held, file, spans, how, flags) {
        Some(result) => Served::Done(result),
        None => Served::Done(by_kernel(fd, file, spans, to, flags)),
    }
}

/// How a datagram of that socket leaves, of which nothing is said beside it.
pub(crate) fn of_socket(file: &File, to: Option<SocketAddr>) -> Outgoing {
    let segment_bytes = u16::try_from(file.socket.option(SocketOption::SegmentBytes)).ok();
    let segment_bytes = segment_bytes.and_then(NonZeroU16::new);
    Outgoing { to, segment_bytes, ..Outgoing::default() }
}

/// Sends a datagram through the data plane as `how` says; nothing: it is for the kernel's half.
pub(crate) fn send_as(
    fd: c_int,
    held: &Held,
    file: &File,
    spans: &Spans,
    how: Outgoing,
    flags: c_int,
) -> Option<Result<usize, Errno>> {
    // As `udp_sendmsg` of Linux; `udpv6_sendmsg` does not look.
    let is_v4 = || match how.to.or_else(|| file.socket.peer_address()) {
        Some(peer) => peer.is_ipv4(),
        None => file.family == libc::AF_INET,
    };
    if flags & libc::MSG_OOB != 0 && is_v4() {
        return Some(Err(Errno::OPNOTSUPP));
    }
    if let Some(errno) = kernel_error(fd, file) {
        return Some(Err(errno));
    }
    let has_more = flags & libc::MSG_MORE != 0;
    if file.goes_on(has_more) || has_more {
        // The kernel's half puts the datagram together.
        return None;
    }
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let deadline = Deadline::of_option(file.send_timeout());
    loop {
        let mut attempt = *spans;
        let bytes = attempt.left();
        if !fits(file, bytes, &how) {
            return None;
        }
        match file.socket.send_as_with(&how, bytes, |piece| attempt.empty(piece)) {
            // Where there is no way for us there may be one for the kernel, whose socket has the
            // same port; and so while the ring is too short for what is to be cut.
            Err(
                Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTUNREACH
                | Errno::NOTCONN
                | Errno::CONNRESET
                | Errno::CONNABORTED
                | Errno::NOBUFS,
            ) => return None,
            Err(Errno::AGAIN) if may_wait => {}
            other => return Some(other.map_err(outcome::in_handler)),
        }
        match wait::on(fd, held, Readiness::OUT, deadline) {
            Ok(Ended::Look) => {}
            Ok(Ended::Replaced) => return Some(Err(Errno::BADF)),
            Ok(Ended::TimedOut) => return Some(Err(Errno::AGAIN)),
            Err(errno) => return Some(Err(errno)),
        }
    }
}

/// Segments of one call, at most: UDP_MAX_SEGMENTS of older kernels. What has more is for the
/// kernel to send or to refuse.
const SEGMENTS_MAX: usize = 64;

/// Whether what is to be sent fits into packets of ours all the way, and comes from an address of
/// ours. More than one datagram of IPv4 can carry is the kernel's too: what IPv6 takes is a little
/// more.
fn fits(file: &File, bytes: usize, how: &Outgoing) -> bool {
    let each = how.segment_bytes.map_or(bytes, |segment| usize::from(segment.get()).min(bytes));
    bytes <= PAYLOAD_MAX
        && file.socket.takes(each, how.to)
        && bytes <= each * SEGMENTS_MAX
        && how.from.is_none_or(|from| file.socket.may_send_from(from))
}

/// Sends a datagram by the kernel's half, which has the same port, and cuts what is too long for a
/// packet.
fn by_kernel(
    fd: c_int,
    file: &File,
    spans: &mut Spans,
    to: Option<SocketAddr>,
    flags: c_int,
) -> Result<usize, Errno> {
    let to = to.or_else(|| file.socket.peer_address());
    let named = to.map(|to| address::storage(to, file.family));
    // Without one the kernel refuses, or goes on with a datagram that it has the beginning of.
    let (name, name_bytes) = match &named {
        Some((name, bytes)) => (std::ptr::from_ref(name).cast(), *bytes as socklen_t),
        None => (std::ptr::null(), 0),
    };
    let mut payload = vec![0_u8; spans.left()];
    spans.take(&mut payload)?;
    let (from, count) = (payload.as_ptr().cast(), payload.len());
    file.expects_kernel_error();
    // SAFETY: payload and address are ours.
    outcome::of_bytes(unsafe { real::sendto(fd, from, count, flags, name, name_bytes) })
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
    if address.is_null() {
        return send(fd, held, spans, None, flags);
    }
    if address_bytes == 0 {
        return Served::Done(Err(Errno::INVAL));
    }
    let Some(file) = held.file() else { return Served::Elsewhere };
    // SAFETY: the caller's promise.
    match unsafe { destination(fd, file, address, address_bytes) } {
        Err(errno) => Served::Done(Err(errno)),
        Ok(Some(to)) => send(fd, held, spans, Some(to), flags),
        Ok(None) => {
            note_begun(file, flags);
            Served::Elsewhere
        }
    }
}

/// The kernel's half is to send: it may only begin a datagram, which the next call goes on with.
pub(crate) fn note_begun(file: &File, flags: c_int) {
    file.goes_on(flags & libc::MSG_MORE != 0);
}

/// The address that a datagram is to go to; nothing: it is one of many, of another family than the
/// socket or its own address, or nonsense, and the kernel's, which is to see what the program has
/// written.
///
/// # Errors
/// EFAULT.
///
/// # Safety
/// Reading the address is the program's wish.
pub(crate) unsafe fn destination(
    fd: c_int,
    file: &File,
    address: *const sockaddr,
    bytes: socklen_t,
) -> Result<Option<SocketAddr>, Errno> {
    // SAFETY: the caller's promise.
    if unsafe { address::is_foreign(address, bytes, file.family)? } {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let to = unsafe { address::read(address, bytes)? };
    Ok(to.filter(|to| address::is_ours(*to) && leads_to(fd, file, *to)))
}

/// Whether there is a way from the socket's own address, or the kernel's half is to say that there
/// is none.
pub(crate) fn leads_to(fd: c_int, file: &File, to: SocketAddr) -> bool {
    file.leads_to(to, || {
        let alone = kernel_socket::number(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
        alone.is_some_and(|value| value != 0)
    })
}

/// The sender's address of a datagram, where the program wants it.
///
/// # Safety
/// Writing at both places is the program's wish.
pub(crate) unsafe fn put_sender(
    received: &Received,
    family: c_int,
    address: *mut sockaddr,
    address_bytes: *mut socklen_t,
) -> Result<usize, Errno> {
    if let Some(from) = received.from
        && !address.is_null()
    {
        // SAFETY: the caller's promise.
        unsafe { address::write(from, family, address, address_bytes)? };
    }
    Ok(received.returned)
}
