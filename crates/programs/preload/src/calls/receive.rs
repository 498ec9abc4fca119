//! The calls that read bytes.

use calisto_client::sockets::{GIVEN_TO_KERNEL, Readiness, ReceiveFlags, SocketOption};
use libc::{c_int, c_void, iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;

use crate::calls::beside::Place;
use crate::calls::datagram;
use crate::calls::served::Served;
use crate::calls::spans::Spans;
use crate::entry::file::{File, Kind};
use crate::entry::{Held, descriptors};
use crate::process::lookup;
use crate::system::outcome::in_handler;
use crate::system::{copy, real};
use crate::wait::deadline::Deadline;
use crate::wait::{self, Ended};

/// Flags of recv(2) that ask the kernel's socket: of a connection of ours it has nothing to tell.
const KERNELS: c_int = libc::MSG_ERRQUEUE;

/// Receives into `spans`; how many bytes. `after_some`: the call has received before, and an error
/// that waits is left for the next one.
pub(crate) fn stream(
    fd: c_int,
    held: &Held,
    spans: &mut Spans,
    flags: c_int,
    after_some: bool,
) -> Served<usize> {
    match of_data_plane(fd, held, spans, flags, after_some) {
        // Nothing was done yet.
        Served::Done(Err(GIVEN_TO_KERNEL)) => {
            wait::given(fd, held);
            Served::Elsewhere
        }
        served => served,
    }
}

/// The bytes that a call still waits for come by the kernel: the connection was given to it in the
/// middle of the call. How many there are then.
#[cold]
fn rest_of_kernel(
    fd: c_int,
    held: &Held,
    spans: &mut Spans,
    flags: c_int,
    (mut done, target): (usize, usize),
) -> usize {
    wait::given(fd, held);
    let mut buffer = [0_u8; 4096];
    while done < target && spans.left() > 0 {
        let room = buffer.len().min(spans.left());
        // SAFETY: the buffer has that much room.
        let got = unsafe { real::recv(fd, buffer.as_mut_ptr().cast(), room, flags & !PARTLY) };
        let Ok(count @ 1..) = usize::try_from(got) else { break };
        match spans.put(&buffer[..count]) {
            Ok(_) => done += count,
            Err(_) => break,
        }
    }
    done
}

/// Flags of the whole call.
const PARTLY: c_int = libc::MSG_WAITALL;

fn of_data_plane(
    fd: c_int,
    held: &Held,
    spans: &mut Spans,
    flags: c_int,
    after_some: bool,
) -> Served<usize> {
    let Some(file) = held.file() else { return Served::Elsewhere };
    if file.kind == Kind::Listener {
        return Served::Done(Err(Errno::NOTCONN));
    }
    if flags & libc::MSG_OOB != 0 {
        return Served::Done(urgent(file, spans, flags & libc::MSG_PEEK != 0));
    }
    if spans.left() == 0 {
        return Served::Done(nothing(fd, held, file, flags, after_some));
    }
    let target = target(file, spans, flags);
    let start = *spans;
    // The usual call: one look finds bytes, and takes what there is.
    let first = take(file, spans, flags, after_some);
    match first {
        Ok(0) => return Served::Done(Ok(0)),
        Ok(count) if flags & libc::MSG_PEEK != 0 && flags & libc::MSG_WAITALL == 0 => {
            return Served::Done(Ok(count));
        }
        Ok(count) if flags & libc::MSG_PEEK == 0 && count >= target => {
            return Served::Done(Ok(count));
        }
        Err(errno) if errno != Errno::AGAIN => return Served::Done(Err(in_handler(errno))),
        _ => {}
    }
    let mut done = first.unwrap_or(0);
    if flags & libc::MSG_DONTWAIT != 0 || file.is_nonblocking() {
        return Served::Done(if done > 0 { Ok(done) } else { Err(Errno::AGAIN) });
    }
    let deadline = Deadline::of_option(file.receive_timeout());
    loop {
        // A call that has taken something stops before the urgent byte (`tcp_recvmsg_locked`).
        if flags & libc::MSG_PEEK == 0 && done > 0 && file.socket.at_mark() {
            return Served::Done(Ok(done));
        }
        if flags & libc::MSG_PEEK != 0 && done > 0 {
            let wants_all = flags & libc::MSG_WAITALL != 0;
            return Served::Done(if wants_all {
                peek_all(fd, held, start, flags, deadline)
            } else {
                Ok(done)
            });
        }
        match wait::on(fd, held, Readiness::IN, deadline) {
            Ok(Ended::Look) => {}
            Ok(Ended::Replaced) if file.socket.is_kernels() => {
                return Served::Done(match done {
                    0 => Err(GIVEN_TO_KERNEL),
                    _ => Ok(rest_of_kernel(fd, held, spans, flags, (done, target))),
                });
            }
            Ok(Ended::Replaced) if done == 0 => return Served::Done(Err(Errno::BADF)),
            Ok(Ended::Replaced) => return Served::Done(Ok(done)),
            Ok(Ended::TimedOut) => {
                return Served::Done(if done > 0 { Ok(done) } else { Err(Errno::AGAIN) });
            }
            Err(errno) => return Served::Done(if done > 0 { Ok(done) } else { Err(errno) }),
        }
        match take(file, spans, flags, after_some || done > 0) {
            Ok(0) => return Served::Done(Ok(done)),
            Ok(count) => done += count,
            Err(Errno::AGAIN) => continue,
            Err(GIVEN_TO_KERNEL) if done > 0 => {
                let done = rest_of_kernel(fd, held, spans, flags, (done, target));
                return Served::Done(Ok(done));
            }
            Err(_) if done > 0 => return Served::Done(Ok(done)),
            Err(errno) => return Served::Done(Err(in_handler(errno))),
        }
        if flags & libc::MSG_PEEK == 0 && done >= target {
            return Served::Done(Ok(done));
        }
    }
}

/// A call for no bytes waits for some to be there, as `tcp_recvmsg` does.
#[cold]
fn nothing(
    fd: c_int,
    held: &Held,
    file: &File,
    flags: c_int,
    after_some: bool,
) -> Result<usize, Errno> {
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let deadline = Deadline::of_option(file.receive_timeout());
    loop {
        if file.socket.unread_bytes() > 0 {
            return Ok(0);
        }
        // Nothing can be taken: what is told is the end, an error, or that there is nothing.
        let asked = ReceiveFlags { peek: true, after_some, ..ReceiveFlags::default() };
        match file.socket.receive_with(asked, |_| Ok(0)) {
            Err(Errno::AGAIN) if may_wait => {}
            other => return other.map_err(in_handler),
        }
        match wait::on(fd, held, Readiness::IN, deadline)? {
            Ended::Look => {}
            Ended::Replaced if file.socket.is_kernels() => return Err(GIVEN_TO_KERNEL),
            Ended::Replaced => return Err(Errno::BADF),
            Ended::TimedOut => return Err(Errno::AGAIN),
        }
    }
}

/// Takes what there is, without waiting.
#[inline]
fn take(file: &File, spans: &mut Spans, flags: c_int, after_some: bool) -> Result<usize, Errno> {
    let peek = flags & libc::MSG_PEEK != 0;
    let asked = ReceiveFlags { peek, after_some, ..ReceiveFlags::default() };
    if flags & libc::MSG_TRUNC != 0 {
        // TCP discards what would have been copied.
        return file.socket.receive_with(asked, |piece| Ok(spans.skip(piece)));
    }
    file.socket.receive_with(asked, |piece| spans.fill(piece))
}

/// Bytes without which a call that may wait does not return.
fn target(file: &File, spans: &Spans, flags: c_int) -> usize {
    if flags & libc::MSG_WAITALL != 0 {
        return spans.whole();
    }
    let low = file.socket.option(SocketOption::ReceiveLow).max(1) as usize;
    low.min(spans.whole())
}

/// MSG_PEEK together with MSG_WAITALL: waits until that many bytes are there at once.
fn peek_all(
    fd: c_int,
    held: &Held,
    spans: Spans,
    flags: c_int,
    deadline: Deadline,
) -> Result<usize, Errno> {
    let file = held.file().ok_or(Errno::BADF)?;
    loop {
        let mut whole = spans;
        let count = take(file, &mut whole, flags, true).map_err(in_handler)?;
        // It stops before an urgent byte too.
        let is_end = file.socket.readiness().intersects(Readiness::RDHUP | Readiness::PRI);
        if count >= spans.whole() || is_end {
            return Ok(count);
        }
        // Nobody rings for more bytes while some are unread, so this looks again and again.
        let step = Deadline::after(std::time::Duration::from_millis(1));
        if deadline.is_over() || !descriptors::is_still(fd, held) {
            return Ok(count);
        }
        std::thread::sleep(step.left().unwrap_or_default());
    }
}

/// As `tcp_recv_urg`: it is read by a call without room for it too.
fn urgent(file: &File, spans: &mut Spans, peek: bool) -> Result<usize, Errno> {
    match file.socket.receive_urgent(peek) {
        Ok(byte) => spans.put(&[byte]),
        Err(Errno::AGAIN) if file.socket.readiness().contains(Readiness::RDHUP) => Ok(0),
        Err(errno) => Err(in_handler(errno)),
    }
}

/// Receives by whichever kind of socket it is.
fn receive(fd: c_int, spans: &mut Spans, flags: c_int) -> Served<usize> {
    let Some(held) = lookup::socket(fd) else { return Served::Elsewhere };
    let kind = held.file().map(|file| file.kind);
    if flags & KERNELS != 0 && kind != Some(Kind::Datagram) {
        return Served::Elsewhere;
    }
    if kind == Some(Kind::Datagram) {
        // SAFETY: nothing is written to nowhere.
        let received = unsafe { datagram::receive(fd, &held, spans, Place::NOWHERE, flags, false) };
        return match received {
            Served::Done(result) => Served::Done(result.map(|received| received.returned)),
            Served::Elsewhere => Served::Elsewhere,
        };
    }
    stream(fd, &held, spans, flags, false)
}

/// read(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    if bytes == 0 {
        // As `sock_read_iter`, which asks the connection nothing then.
        // SAFETY: the caller's arguments.
        return unsafe { real::read(fd, buffer, bytes) };
    }
    // SAFETY: the caller's arguments.
    receive(fd, &mut Spans::one(buffer, bytes), 0)
        .otherwise(|| unsafe { real::read(fd, buffer, bytes) })
}

/// readv(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    unsafe { read_list(fd, parts, count, 0) }.otherwise(|| unsafe { real::readv(fd, parts, count) })
}

unsafe fn read_list(fd: c_int, parts: *const iovec, count: c_int, flags: c_int) -> Served<usize> {
    // SAFETY: the caller's promise.
    match unsafe { Spans::list(parts, count) } {
        Ok(spans) if spans.left() == 0 => Served::Elsewhere,
        Ok(mut spans) => receive(fd, &mut spans, flags),
        Err(errno) => Served::Done(Err(errno)),
    }
}

/// Flags of preadv2(2) and pwritev2(2) that a socket takes: all are for files but RWF_NOWAIT.
pub(crate) const NO_PLACE_FLAGS: c_int =
    libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_NOWAIT | libc::RWF_APPEND;

/// What those are for recv(2) and send(2).
pub(crate) const fn message_flags(flags: c_int) -> c_int {
    if flags & libc::RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 }
}

/// preadv2(2): a socket has no places to read at but "where it is".
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn preadv2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    if at == -1 && flags & !NO_PLACE_FLAGS == 0 && lookup::socket(fd).is_some() {
        // SAFETY: the caller's arguments.
        return unsafe { read_list(fd, parts, count, message_flags(flags)) }
            .otherwise(|| unsafe { real::preadv2(fd, parts, count, at, flags) });
    }
    // SAFETY: the caller's arguments.
    unsafe { real::preadv2(fd, parts, count, at, flags) }
}

/// recv(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn recv(fd: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    receive(fd, &mut Spans::one(buffer, bytes), flags)
        .otherwise(|| unsafe { real::recv(fd, buffer, bytes, flags) })
}

/// recvfrom(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_bytes: *mut socklen_t,
) -> ssize_t {
    let mut spans = Spans::one(buffer, bytes);
    let served = match lookup::socket(fd) {
        Some(held) if held.file().is_some_and(|file| file.kind == Kind::Datagram) => {
            // SAFETY: the caller's promise.
            unsafe { datagram::recvfrom(fd, &held, &mut spans, flags, address, address_bytes) }
        }
        _ => {
            let served = receive(fd, &mut spans, flags);
            if let (Served::Done(Ok(_)), false) = (&served, address.is_null()) {
                // A connection's bytes come from nobody in particular.
                // SAFETY: the caller's promise.
                match unsafe { copy::put(address_bytes, &0) } {
                    Ok(()) => served,
                    Err(errno) => Served::Done(Err(errno)),
                }
            } else {
                served
            }
        }
    };
    // SAFETY: the caller's arguments.
    served.otherwise(|| unsafe { real::recvfrom(fd, buffer, bytes, flags, address, address_bytes) })
}
