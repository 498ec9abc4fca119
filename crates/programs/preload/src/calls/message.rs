//! sendmsg(2) and recvmsg(2): bytes with addresses, and descriptors that go from process to
//! process.

use libc::{c_int, cmsghdr, msghdr, socklen_t, ssize_t};
use rustix::io::Errno;

use crate::calls::beside::{self, Parts, Place};
use crate::calls::inherit::TCP_INQ;
use crate::calls::served::Served;
use crate::calls::spans::Spans;
use crate::calls::{datagram, receive, send, udp};
use crate::entry::{Held, descriptors};

use crate::entry::file::{File, Kind};
use crate::process::{inherited, lookup};
use crate::system::{address, copy, fork, outcome, real};

/// recvmsg(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if !descriptors::is_plain(fd) {
        // SAFETY: the caller's promise.
        if let Served::Done(result) = unsafe { receive_ours(fd, message, flags, false) } {
            return outcome::bytes(result);
        }
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { real::recvmsg(fd, message, flags) };
    if result >= 0 {
        // SAFETY: the kernel has read and written it.
        unsafe { note_received(message) };
    }
    result
}

/// sendmsg(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    if let Err(errno) = unsafe { note_first(fd, message) } {
        return outcome::failed(errno);
    }
    if !descriptors::is_plain(fd) {
        // SAFETY: the caller's promise.
        if let Served::Done(result) = unsafe { send_ours(fd, message, flags) } {
            return outcome::bytes(result);
        }
    } else {
        // SAFETY: the caller's promise.
        unsafe { note_sent(message) };
    }
    // SAFETY: the caller's arguments.
    unsafe { real::sendmsg(fd, message, flags) }
}

/// Receives on a socket of ours; `after_some`: the call has received before, and an error that
/// waits is left for the next one.
///
/// # Safety
/// Reading and writing the message and its buffers is the program's wish.
pub(crate) unsafe fn receive_ours(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
    after_some: bool,
) -> Served<usize> {
    let Some(held) = lookup::socket(fd) else { return Served::Elsewhere };
    let Some(file) = held.file() else { return Served::Elsewhere };
    if flags & libc::MSG_ERRQUEUE != 0 {
        return datagram::of_error_queue(file);
    }
    crate::system::faults::watch();
    // SAFETY: the caller's promise; any bits are a message's header.
    let header = match unsafe { copy::get(message) } {
        Ok(header) => header,
        Err(errno) => return Served::Done(Err(errno)),
    };
    // SAFETY: the caller's promise.
    let mut spans = match unsafe { Spans::of_message(header.msg_iov, header.msg_iovlen) } {
        Ok(spans) => spans,
        Err(errno) => return Served::Done(Err(errno)),
    };
    let mut told = flags & libc::MSG_CMSG_CLOEXEC;
    let mut name_bytes = 0;
    let mut beside = 0;
    let returned = if file.kind == Kind::Datagram {
        let place = Place::of(&header);
        // SAFETY: the caller's promise.
        let received =
            unsafe { datagram::receive(fd, &held, &mut spans, place, flags, after_some) };
        let received = match received {
            Served::Done(Ok(received)) => received,
            Served::Done(Err(errno)) => return Served::Done(Err(errno)),
            Served::Elsewhere => return Served::Elsewhere,
        };
        if received.is_cut {
            told |= libc::MSG_TRUNC;
        }
        if received.is_beside_cut {
            told |= libc::MSG_CTRUNC;
        }
        beside = received.beside;
        name_bytes = header.msg_namelen;
        // SAFETY: the caller's promise; the length is ours.
        let named = unsafe {
            datagram::put_sender(
                &received,
                file.family,
                header.msg_name.cast(),
                &raw mut name_bytes,
            )
        };
        match named {
            Ok(returned) => returned,
            Err(errno) => return Served::Done(Err(errno)),
        }
    } else {
        match receive::stream(fd, &held, &mut spans, flags, after_some) {
            Served::Done(Ok(returned)) => returned,
            other => return other,
        }
    };
    if file.kind == Kind::Stream && flags & libc::MSG_OOB != 0 && returned > 0 {
        told |= libc::MSG_OOB;
    }
    if file.kind == Kind::Stream && file.tells_unread() {
        let mut parts = Parts::at(Place::of(&header));
        let left = c_int::try_from(file.socket.unread_bytes()).unwrap_or(c_int::MAX);
        // SAFETY: the caller's promise.
        unsafe { parts.put(libc::IPPROTO_TCP, TCP_INQ, &left.to_ne_bytes()) };
        beside = parts.bytes;
        told |= if parts.is_cut { libc::MSG_CTRUNC } else { 0 };
    }
    // SAFETY: the caller's promise.
    let written = unsafe {
        // Who has no place for a name hears nothing of its length.
        let named = match header.msg_name.is_null() {
            true => Ok(()),
            false => copy::put(&raw mut (*message).msg_namelen, &name_bytes),
        };
        named
            .and_then(|()| copy::put(&raw mut (*message).msg_controllen, &beside))
            .and_then(|()| copy::put(&raw mut (*message).msg_flags, &told))
    };
    Served::Done(written.map(|()| returned))
}

/// Sends on a socket of ours. What stands beside the bytes of a datagram and is not known here is
/// the kernel's half to heed, which has the same port.
///
/// # Safety
/// Reading the message and its buffers is the program's wish.
pub(crate) unsafe fn send_ours(fd: c_int, message: *const msghdr, flags: c_int) -> Served<usize> {
    let Some(held) = lookup::socket(fd) else { return Served::Elsewhere };
    let Some(file) = held.file() else { return Served::Elsewhere };
    crate::system::faults::watch();
    // SAFETY: the caller's promise; any bits are a message's header.
    let header = match unsafe { copy::get(message) } {
        Ok(header) => header,
        Err(errno) => return Served::Done(Err(errno)),
    };
    // SAFETY: the caller's promise.
    let mut spans = match unsafe { Spans::of_message(header.msg_iov, header.msg_iovlen) } {
        Ok(spans) => spans,
        Err(errno) => return Served::Done(Err(errno)),
    };
    // As `__copy_msghdr` of Linux, which cuts what is too long.
    let name_bytes = match c_int::try_from(header.msg_namelen) {
        Ok(_) => header.msg_namelen.min(size_of::<libc::sockaddr_storage>() as socklen_t),
        Err(_) if header.msg_name.is_null() => 0,
        Err(_) => return Served::Done(Err(Errno::INVAL)),
    };
    // SAFETY: the caller's promise.
    if let Err(errno) = unsafe { address::judge(header.msg_name.cast_const().cast(), name_bytes) } {
        return Served::Done(Err(errno));
    }
    if file.kind == Kind::Datagram && header.msg_controllen >= size_of::<cmsghdr>() {
        // SAFETY: the caller's promise.
        return Served::Done(
            match unsafe { send_beside(fd, &held, file, &spans, &header, flags) } {
                Ok(Some(result)) => result,
                // SAFETY: the caller's promise.
                Ok(None) => unsafe { by_kernel(fd, file, header, flags) },
                Err(errno) => Err(errno),
            },
        );
    }
    if file.kind == Kind::Datagram {
        let (name, bytes) = (header.msg_name.cast_const().cast(), header.msg_namelen);
        let name = if bytes == 0 { std::ptr::null() } else { name };
        // SAFETY: the caller's promise.
        return unsafe { datagram::sendto(fd, &held, &mut spans, flags, name, bytes) };
    }
    // SAFETY: the caller's promise.
    match unsafe { beside::is_right_on_stream(&header) } {
        Ok(true) => send::stream(fd, &held, spans.left(), flags, |piece| spans.empty(piece)),
        // The connection's own errors come first (`tcp_sendmsg_locked` of Linux).
        Ok(false) => match send::stream(fd, &held, 0, flags, |_| Ok(0)) {
            Served::Done(Ok(_)) => Served::Done(Err(Errno::INVAL)),
            other => other,
        },
        Err(errno) => Served::Done(Err(errno)),
    }
}

/// Sends a datagram with what stands beside it through the data plane; nothing: that is for the
/// kernel's half.
///
/// # Errors
/// EFAULT.
///
/// # Safety
/// Reading the message and its buffers is the program's wish.
unsafe fn send_beside(
    fd: c_int,
    held: &Held,
    file: &File,
    spans: &Spans,
    header: &msghdr,
    flags: c_int,
) -> Result<Option<Result<usize, Errno>>, Errno> {
    let name = header.msg_name.cast_const().cast::<libc::sockaddr>();
    let bytes = header.msg_namelen;
    let to = match names_nobody(header) {
        true => None,
        // SAFETY: the caller's promise.
        false => match unsafe { datagram::destination(fd, file, name, bytes)? } {
            Some(to) => Some(to),
            None => return Ok(None),
        },
    };
    let Some(peer) = to.or_else(|| file.socket.peer_address()) else { return Ok(None) };
    let mut how = datagram::of_socket(file, to);
    // SAFETY: the caller's promise.
    if !unsafe { beside::leaving(header, peer.is_ipv4(), &mut how)? } {
        return Ok(None);
    }
    Ok(datagram::send_as(fd, held, file, spans, how, flags))
}

/// Whether a message goes to whom the socket is connected to.
fn names_nobody(header: &msghdr) -> bool {
    header.msg_name.is_null() || header.msg_namelen == 0
}

/// Sends a datagram by the kernel's half, which does not know a peer that ours is connected to.
///
/// # Safety
/// Reading the message and its buffers is the program's wish.
unsafe fn by_kernel(
    fd: c_int,
    file: &File,
    mut header: msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    let peer = file.socket.peer_address().map(|peer| address::storage(peer, file.family));
    if let (true, Some((name, count))) = (names_nobody(&header), &peer) {
        header.msg_name = std::ptr::from_ref(name).cast_mut().cast();
        header.msg_namelen = *count as socklen_t;
    }
    datagram::note_begun(file, flags);
    file.expects_kernel_error();
    // SAFETY: the caller's promise; the address lives until the call is over.
    outcome::of_bytes(unsafe { real::sendmsg(fd, &raw const header, flags) })
}

/// The first message of a UDP socket that has no port.
///
/// # Errors
/// This user may not.
///
/// # Safety
/// Reading the message is the program's wish.
pub(crate) unsafe fn note_first(fd: c_int, message: *const msghdr) -> Result<(), Errno> {
    if !descriptors::is_fresh(fd) {
        return Ok(());
    }
    crate::system::faults::watch();
    // SAFETY: the caller's promise; any bits are a message's header.
    let Ok(header) = (unsafe { copy::get(message) }) else {
        return Ok(());
    };
    let name = header.msg_name.cast_const().cast();
    // SAFETY: the caller's promise.
    unsafe { udp::begin(fd, name, header.msg_namelen) }
}

/// Sockets of ours that go to another process are no longer this one's alone to close.
///
/// # Safety
/// The program has given the message to sendmsg(2).
pub(crate) unsafe fn note_sent(message: *const msghdr) {
    if !descriptors::any_special() {
        return;
    }
    // SAFETY: the caller's promise.
    let _ = unsafe {
        each_descriptor(message, |fd| {
            if let Some(held) = lookup::socket(fd)
                && let Some(file) = held.file()
            {
                file.socket.mark_shared();
            }
        })
    };
}

/// Sockets that came from another process may be the data plane's.
///
/// # Safety
/// recvmsg(2) has filled the message.
pub(crate) unsafe fn note_received(message: *const msghdr) {
    // SAFETY: the caller's promise.
    let has_more = unsafe { message.as_ref() }.is_some_and(|message| message.msg_controllen > 0);
    if has_more && !fork::is_borrowed() {
        // SAFETY: the caller's promise.
        let _ = unsafe { each_descriptor(message, |fd| _ = inherited::may_be_ours(fd)) };
    }
}

/// Calls `see` for each descriptor beside a message.
unsafe fn each_descriptor(message: *const msghdr, mut see: impl FnMut(c_int)) -> Result<(), Errno> {
    crate::system::faults::watch();
    // SAFETY: the caller's promise; any bits are a message's header. Whether it can be read is for
    // the kernel to say, which has not looked yet.
    let header = unsafe { copy::get(message)? };
    let mut left = header.msg_controllen;
    let mut next = header.msg_control.cast::<u8>().cast_const();
    if next.is_null() {
        return Ok(());
    }
    const HEADER: usize = size_of::<cmsghdr>();
    const WORD: usize = size_of::<usize>();
    while left >= HEADER {
        // SAFETY: inside the stretch that the message names; any bits are such a header.
        let part = unsafe { copy::get(next.cast::<cmsghdr>())? };
        let bytes = part.cmsg_len;
        if bytes < HEADER || bytes > left {
            return Ok(());
        }
        if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_RIGHTS {
            for index in 0..(bytes - HEADER) / size_of::<c_int>() {
                let at = HEADER + index * size_of::<c_int>();
                // SAFETY: inside the part.
                see(unsafe { copy::get(next.add(at).cast::<c_int>())? });
            }
        }
        let step = bytes.next_multiple_of(WORD).min(left);
        // SAFETY: not beyond the end of the stretch.
        next = unsafe { next.add(step) };
        left -= step;
    }
    Ok(())
}
