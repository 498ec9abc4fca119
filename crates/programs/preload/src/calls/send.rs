//! The calls that write bytes.

use calisto_client::sockets::{GIVEN_TO_KERNEL, Piece, Readiness, SendFlags};
use libc::{c_int, c_void, iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;

use crate::calls::served::Served;
use crate::calls::spans::Spans;
use crate::calls::{datagram, receive, udp};
use crate::entry::file::{File, Kind};
use crate::entry::{Held, descriptors};
use crate::process::lookup;
use crate::system::outcome::{self, in_handler};
use crate::system::{address, raw, real};
use crate::wait::deadline::Deadline;
use crate::wait::{self, Ended};

/// Writes all of `bytes`, of which `fill` gives the next ones, unless the socket does not wait; how
/// many.
pub(crate) fn stream(
    fd: c_int,
    held: &Held,
    bytes: usize,
    flags: c_int,
    fill: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
) -> Served<usize> {
    write_stream(fd, held, bytes, flags, true, fill)
}

/// The same of bytes that are gone from where they were once `fill` has given them: a part is
/// enough when the connection is given to the kernel in the middle of the call.
pub(crate) fn part_of_stream(
    fd: c_int,
    held: &Held,
    bytes: usize,
    flags: c_int,
    fill: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
) -> Served<usize> {
    write_stream(fd, held, bytes, flags, false, fill)
}

fn write_stream(
    fd: c_int,
    held: &Held,
    bytes: usize,
    flags: c_int,
    goes_on: bool,
    fill: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
) -> Served<usize> {
    match by_data_plane(fd, held, bytes, flags, goes_on, fill) {
        // Nothing was done yet.
        Served::Done(Err(GIVEN_TO_KERNEL)) => {
            wait::given(fd, held);
            Served::Elsewhere
        }
        served => served,
    }
}

/// The `left` bytes that a call still has to write go by the kernel: the connection was given to it
/// in the middle of the call. How many of them went.
#[cold]
fn rest_by_kernel(
    fd: c_int,
    held: &Held,
    left: usize,
    flags: c_int,
    fill: &mut impl FnMut(Piece<'_>) -> Result<usize, Errno>,
) -> usize {
    wait::given(fd, held);
    let mut buffer = [0_u8; 4096];
    let mut done = 0;
    while done < left {
        let part = buffer.len().min(left - done);
        let Ok(filled @ 1..) = fill((&mut buffer[..part]).into()) else { return done };
        let mut gone = 0;
        while gone < filled {
            let rest = &buffer[gone..filled];
            // SAFETY: the bytes are there. What the call may wait for is the kernel's to know.
            let sent = unsafe { real::send(fd, rest.as_ptr().cast(), rest.len(), flags) };
            let Ok(count @ 1..) = usize::try_from(sent) else { return done + gone };
            gone += count;
        }
        done += filled;
    }
    done
}

fn by_data_plane(
    fd: c_int,
    held: &Held,
    bytes: usize,
    flags: c_int,
    goes_on: bool,
    mut fill: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
) -> Served<usize> {
    let Some(file) = held.file() else { return Served::Elsewhere };
    if file.kind == Kind::Listener {
        return Served::Done(end(Err(Errno::PIPE), 0, flags));
    }
    if flags & libc::MSG_FASTOPEN != 0 && file.socket.is_connected() {
        // As `tcp_sendmsg_fastopen` has it, which would connect.
        return Served::Done(Err(Errno::ISCONN));
    }
    let mut asked = SendFlags {
        more: flags & libc::MSG_MORE != 0,
        urgent: flags & libc::MSG_OOB != 0,
        after_some: false,
    };
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let mut done = 0;
    let mut deadline = None;
    loop {
        match put(file, asked, bytes - done, &mut fill) {
            Ok(count) => done += count,
            Err(Errno::AGAIN) => {}
            Err(GIVEN_TO_KERNEL) if done > 0 && may_wait && goes_on => {
                let rest = rest_by_kernel(fd, held, bytes - done, flags, &mut fill);
                return Served::Done(Ok(done + rest));
            }
            Err(errno) => return Served::Done(end(Err(in_handler(errno)), done, flags)),
        }
        if done >= bytes {
            return Served::Done(Ok(done));
        }
        asked.after_some = done > 0;
        file.note_no_room();
        if !may_wait {
            return Served::Done(end(Err(Errno::AGAIN), done, flags));
        }
        let deadline = *deadline.get_or_insert_with(|| Deadline::of_option(file.send_timeout()));
        match wait::on(fd, held, Readiness::OUT, deadline) {
            Ok(Ended::Look) => {}
            Ok(Ended::Replaced) if file.socket.is_kernels() => {
                return Served::Done(match done {
                    0 => Err(GIVEN_TO_KERNEL),
                    _ if !goes_on => Ok(done),
                    _ => Ok(done + rest_by_kernel(fd, held, bytes - done, flags, &mut fill)),
                });
            }
            Ok(Ended::Replaced) if done == 0 => return Served::Done(Err(Errno::BADF)),
            Ok(Ended::Replaced) => return Served::Done(Ok(done)),
            Ok(Ended::TimedOut) => return Served::Done(end(Err(Errno::AGAIN), done, flags)),
            Err(errno) => return Served::Done(end(Err(errno), done, flags)),
        }
    }
}

#[inline]
fn put(
    file: &File,
    asked: SendFlags,
    bytes: usize,
    fill: &mut impl FnMut(Piece<'_>) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    if bytes == 0 {
        // Nothing to write is no error, unless the connection has one or is shut. It needs no
        // room, but a connection.
        return match file.socket.send_with(asked, 0, fill) {
            Err(Errno::AGAIN) if file.socket.is_connected() => Ok(0),
            other => other,
        };
    }
    file.socket.send_with(asked, bytes, fill)
}

/// What the program is told: what went is more important than why no more did. A broken pipe comes
/// with its signal.
fn end(result: Result<usize, Errno>, done: usize, flags: c_int) -> Result<usize, Errno> {
    match result {
        Err(_) if done > 0 => Ok(done),
        Err(Errno::PIPE) => {
            if flags & libc::MSG_NOSIGNAL == 0 {
                raw::raise_here(libc::SIGPIPE);
            }
            Err(Errno::PIPE)
        }
        other => other,
    }
}

/// Sends by whichever kind of socket it is.
fn transmit(fd: c_int, spans: &mut Spans, flags: c_int) -> Served<usize> {
    let Some(held) = lookup::socket(fd) else { return Served::Elsewhere };
    if held.file().is_some_and(|file| file.kind == Kind::Datagram) {
        return datagram::send(fd, &held, spans, None, flags);
    }
    stream(fd, &held, spans.left(), flags, |piece| spans.empty(piece))
}

/// write(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t {
    // SAFETY: the caller's arguments.
    transmit(fd, &mut Spans::one(buffer, bytes), 0)
        .otherwise(|| unsafe { real::write(fd, buffer, bytes) })
}

/// writev(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's arguments.
    unsafe { write_list(fd, parts, count, 0) }
        .otherwise(|| unsafe { real::writev(fd, parts, count) })
}

unsafe fn write_list(fd: c_int, parts: *const iovec, count: c_int, flags: c_int) -> Served<usize> {
    // SAFETY: the caller's promise.
    match unsafe { Spans::list(parts, count) } {
        // The socket does not hear of no bytes in all (`vfs_writev`).
        Ok(spans) if spans.left() == 0 => Served::Elsewhere,
        Ok(mut spans) => transmit(fd, &mut spans, flags),
        Err(errno) => Served::Done(Err(errno)),
    }
}

/// pwritev2(2): a socket has no places to write at but "where it is".
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    if at == -1 && flags & !receive::NO_PLACE_FLAGS == 0 && lookup::socket(fd).is_some() {
        // SAFETY: the caller's arguments.
        return unsafe { write_list(fd, parts, count, receive::message_flags(flags)) }
            .otherwise(|| unsafe { real::pwritev2(fd, parts, count, at, flags) });
    }
    // SAFETY: the caller's arguments.
    unsafe { real::pwritev2(fd, parts, count, at, flags) }
}

/// send(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn send(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    transmit(fd, &mut Spans::one(buffer, bytes), flags)
        .otherwise(|| unsafe { real::send(fd, buffer, bytes, flags) })
}

/// sendto(2). A connection sends to its peer, whatever address stands beside the bytes.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sendto(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_bytes: socklen_t,
) -> ssize_t {
    if descriptors::is_fresh(fd) {
        // SAFETY: the caller's promise.
        if let Err(errno) = unsafe { udp::begin(fd, address, address_bytes) } {
            return outcome::failed(errno);
        }
    }
    let mut spans = Spans::one(buffer, bytes);
    let held = lookup::socket(fd);
    if held.is_some()
        // SAFETY: the caller's promise.
        && let Err(errno) = unsafe { address::judge(address, address_bytes) }
    {
        return outcome::failed(errno);
    }
    let served = match held {
        Some(held) if held.file().is_some_and(|file| file.kind == Kind::Datagram) => {
            // SAFETY: the caller's promise.
            unsafe { datagram::sendto(fd, &held, &mut spans, flags, address, address_bytes) }
        }
        _ => transmit(fd, &mut spans, flags),
    };
    // SAFETY: the caller's arguments.
    served.otherwise(|| unsafe { real::sendto(fd, buffer, bytes, flags, address, address_bytes) })
}
