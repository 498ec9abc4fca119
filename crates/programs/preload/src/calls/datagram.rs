//! Datagrams: what a socket of ours receives and sends, and what its kernel half does.

use std::net::SocketAddr;

use calisto_client::sockets::{Readiness, ReceiveFlags};
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;

use crate::calls::served::Served;
use crate::calls::spans::Spans;
use crate::entry::Held;
use crate::entry::file::File;
use crate::process::lookup;
use crate::system::{address, outcome, real};
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
}

/// Receives a datagram of either half.
pub(crate) fn receive(fd: c_int, held: &Held, spans: &mut Spans, flags: c_int) -> Served<Received> {
    let Some(file) = held.file() else { return Served::Elsewhere };
    let asked =
        ReceiveFlags { peek: flags & libc::MSG_PEEK != 0, truncate: flags & libc::MSG_TRUNC != 0 };
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let deadline = Deadline::of_option(file.receive_timeout());
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
        if file.socket.readiness().contains(Readiness::RDHUP) {
            return Served::Done(Ok(Received { returned: 0, is_cut: false, from: None }));
        }
        match wait::on(fd, held, Readiness::IN, deadline) {
            Ok(Ended::Look) => {}
            Ok(Ended::Replaced) if file.was_renewed() => {
                return match lookup::socket(fd) {
                    Some(held) => receive(fd, &held, spans, flags),
                    None => Served::Elsewhere,
                };
            }
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
    let from =
        unsafe { address::read((&raw const name).cast(), header.msg_namelen) }.ok().flatten();
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
    if flags & libc::MSG_OOB != 0 {
        return Served::Done(Err(Errno::OPNOTSUPP));
    }
    let has_more = flags & libc::MSG_MORE != 0;
    if file.goes_on(has_more) || has_more {
        // The kernel's half puts the datagram together.
        return Served::Done(by_kernel(fd, file, spans, to, flags));
    }
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let deadline = Deadline::of_option(file.send_timeout());
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

/// Sends a datagram by the kernel's half, which has the same port, and cuts what is too long for a
/// packet.
fn by_kernel(
    fd: c_int,
    file: &File,
    spans: &mut Spans,
    to: Option<SocketAddr>,
    flags: c_int,
) -> Result<usize, Errno> {
    let to = to.or_else(|| file.socket.peer_address()).ok_or(Errno::DESTADDRREQ)?;
    let (address, address_bytes) = address::storage(to, file.family);
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
    match unsafe { address::read(address, address_bytes) } {
        Err(errno) => Served::Done(Err(errno)),
        Ok(Some(to)) if address::is_ours(to) => send(fd, held, spans, Some(to), flags),
        // Many, or nonsense: the kernel's.
        Ok(_) => Served::Elsewhere,
    }
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
    if let Some(from) = received.from {
        // SAFETY: the caller's promise.
        unsafe { address::write(from, family, address, address_bytes)? };
    }
    Ok(received.returned)
}
