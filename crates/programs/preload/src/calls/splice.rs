//! splice(2): between a pipe and a socket of ours, the bytes go straight into or out of the data
//! plane's memory.

use calisto_client::sockets::{GIVEN_TO_KERNEL, Readiness, ReceiveFlags};
use libc::{c_int, c_uint, off64_t, pollfd, size_t, ssize_t};
use rustix::io::Errno;

use crate::calls::sendfile::DATAGRAM_ROOM;
use crate::calls::served::Served;
use crate::calls::spans::Spans;
use crate::calls::{datagram, send};
use crate::entry::Held;
use crate::entry::file::Kind;
use crate::process::lookup;
use crate::system::{kernel_socket, outcome, raw, real};
use crate::wait::deadline::Deadline;
use crate::wait::{self, Ended};

/// Bytes that a pipe takes or gives without waiting, once poll(2) says that it is ready.
const PIPE_BYTES: usize = libc::PIPE_BUF;

/// splice(2): one side is a pipe.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn splice(
    from: c_int,
    from_at: *mut off64_t,
    to: c_int,
    to_at: *mut off64_t,
    bytes: size_t,
    flags: c_uint,
) -> ssize_t {
    let (source, target) = (lookup::socket(from), lookup::socket(to));
    // The pipe's: that of the socket's side is no place either, and said so otherwise.
    let has_pipe_place = if source.is_some() { !to_at.is_null() } else { !from_at.is_null() };
    let other = if source.is_some() { to } else { from };
    let served = match (&source, &target) {
        (None, None) => Served::Elsewhere,
        // As `do_splice` asks: for nothing, for anything unknown, for no pipe, for a place.
        _ if bytes == 0 => Served::Done(Ok(0)),
        _ if flags & !SPLICE_FLAGS != 0 => Served::Done(Err(Errno::INVAL)),
        (Some(_), Some(_)) => Served::Done(Err(Errno::INVAL)),
        _ if !is_pipe(other) => Served::Elsewhere,
        _ if has_pipe_place => Served::Done(Err(Errno::SPIPE)),
        _ if !from_at.is_null() || !to_at.is_null() => Served::Done(Err(Errno::INVAL)),
        (Some(held), None) => from_socket(from, held, to, bytes, flags),
        (None, Some(held)) => to_socket(from, to, held, bytes, flags),
    };
    match served {
        Served::Done(result) => outcome::bytes(result),
        // SAFETY: the caller's arguments.
        Served::Elsewhere => unsafe { real::splice(from, from_at, to, to_at, bytes, flags) },
    }
}

/// What splice(2) knows.
const SPLICE_FLAGS: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// Whether it is a pipe; of what is not, the kernel says why it will not do.
fn is_pipe(fd: c_int) -> bool {
    // SAFETY: it takes no argument.
    unsafe { real::fcntl(fd, libc::F_GETPIPE_SZ, 0) >= 0 }
}

/// Waits for a pipe; false: it is not ready, and the call is not to wait.
fn is_ready(pipe: c_int, events: i16, may_wait: bool) -> Result<bool, Errno> {
    let mut place = pollfd { fd: pipe, events, revents: 0 };
    let timeout = if may_wait { -1 } else { 0 };
    // SAFETY: one place, which is ours.
    outcome::of(unsafe { real::poll(&raw mut place, 1, timeout) }).map(|count| count > 0)
}

fn may_wait(fd: c_int, flags: c_uint) -> bool {
    flags & libc::SPLICE_F_NONBLOCK == 0 && !kernel_socket::is_nonblocking(fd)
}

fn from_socket(
    from: c_int,
    held: &Held,
    pipe: c_int,
    bytes: usize,
    flags: c_uint,
) -> Served<usize> {
    let Some(file) = held.file() else { return Served::Elsewhere };
    match file.kind {
        Kind::Stream => {}
        Kind::Listener => return Served::Done(Err(Errno::NOTCONN)),
        Kind::Datagram => return Served::Done(Err(Errno::INVAL)),
    }
    // SPLICE_F_NONBLOCK is about the pipe alone.
    let socket_waits = !file.is_nonblocking();
    let deadline = Deadline::of_option(file.receive_timeout());
    let mut done = 0;
    while done < bytes {
        match is_ready(pipe, libc::POLLOUT, done == 0 && may_wait(pipe, flags)) {
            Ok(true) => {}
            Ok(false) if done > 0 => break,
            Ok(false) => return Served::Done(Err(Errno::AGAIN)),
            Err(errno) => return Served::Done(Err(errno)),
        }
        // Urgent data are left for recv(2), as Linux has it.
        if file.socket.at_mark() {
            match done == 0 && !socket_waits {
                true => return Served::Done(Err(Errno::AGAIN)),
                false => break,
            }
        }
        // A pipe that is ready takes so much without waiting.
        let mut room = PIPE_BYTES.min(bytes - done);
        let asked = ReceiveFlags { after_some: done > 0, ..ReceiveFlags::default() };
        let got = file.socket.receive_with(asked, |piece| {
            let (part, _) = piece.split_at(room);
            if part.is_empty() {
                return Ok(0);
            }
            // SAFETY: the piece is memory of ours, of that length, that bytes are copied from.
            let result = unsafe { real::write(pipe, part.as_ptr().cast(), part.len()) };
            let written = outcome::of_bytes(result)?;
            room -= written;
            Ok(written)
        });
        match got {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::AGAIN) if done > 0 => break,
            Err(Errno::AGAIN) if socket_waits => {
                match wait::on(from, held, Readiness::IN, deadline) {
                    Ok(Ended::Look) => {}
                    Ok(Ended::TimedOut) => return Served::Done(Err(Errno::AGAIN)),
                    Ok(Ended::Replaced) if file.socket.is_kernels() => return Served::Elsewhere,
                    Ok(Ended::Replaced) => return Served::Done(Err(Errno::BADF)),
                    Err(errno) => return Served::Done(Err(errno)),
                }
            }
            Err(_) if done > 0 => break,
            Err(GIVEN_TO_KERNEL) => {
                wait::given(from, held);
                return Served::Elsewhere;
            }
            Err(errno) => return Served::Done(Err(errno)),
        }
    }
    Served::Done(Ok(done))
}

fn to_socket(pipe: c_int, to: c_int, held: &Held, bytes: usize, flags: c_uint) -> Served<usize> {
    let mut send_flags = if flags & libc::SPLICE_F_MORE != 0 { libc::MSG_MORE } else { 0 };
    if flags & libc::SPLICE_F_NONBLOCK != 0 {
        send_flags |= libc::MSG_DONTWAIT;
    }
    match is_ready(pipe, libc::POLLIN, may_wait(pipe, flags)) {
        Ok(true) => {}
        Ok(false) => return Served::Done(Err(Errno::AGAIN)),
        Err(errno) => return Served::Done(Err(errno)),
    }
    let mut there: c_int = 0;
    // SAFETY: it writes one number, which is ours.
    if let Err(errno) = unsafe {
        let to = (&raw mut there) as usize;
        raw::checked(libc::SYS_ioctl, [pipe as usize, libc::FIONREAD as usize, to, 0, 0, 0])
    } {
        return Served::Done(Err(errno));
    }
    let bytes = bytes.min(usize::try_from(there).unwrap_or(0));
    if bytes == 0 {
        // Nobody writes to it any more.
        return Served::Done(Ok(0));
    }
    if held.file().is_some_and(|file| file.kind == Kind::Datagram) {
        return pipe_to_datagram(pipe, to, held, bytes, send_flags);
    }
    let mut left = bytes;
    send::part_of_stream(to, held, bytes, send_flags, |piece| {
        let (part, _) = piece.split_at(left);
        if part.is_empty() {
            return Ok(0);
        }
        // SAFETY: the piece is memory of ours, of that length, that bytes are copied to. That many
        // bytes are in the pipe, so it does not wait.
        let result = unsafe { real::read(pipe, part.as_ptr().cast(), part.len()) };
        let got = outcome::of_bytes(result)?;
        left -= got;
        Ok(got)
    })
}

/// Of a pipe into a UDP socket: one datagram. There is room for it before the pipe gives its bytes
/// away.
fn pipe_to_datagram(
    pipe: c_int,
    to: c_int,
    held: &Held,
    bytes: usize,
    flags: c_int,
) -> Served<usize> {
    let Some(file) = held.file() else { return Served::Elsewhere };
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !file.is_nonblocking();
    let deadline = Deadline::of_option(file.send_timeout());
    while !file.readiness().intersects(Readiness::OUT | Readiness::ERR | Readiness::HUP) {
        match may_wait.then(|| wait::on(to, held, Readiness::OUT, deadline)) {
            None | Some(Ok(Ended::TimedOut)) => return Served::Done(Err(Errno::AGAIN)),
            Some(Ok(Ended::Look)) => {}
            Some(Ok(Ended::Replaced)) => return Served::Done(Err(Errno::BADF)),
            Some(Err(errno)) => return Served::Done(Err(errno)),
        }
    }
    let mut text = vec![0_u8; bytes.min(DATAGRAM_ROOM)];
    // SAFETY: `text` has this much room; the pipe has as many bytes, so it does not wait.
    let got = unsafe { real::read(pipe, text.as_mut_ptr().cast(), text.len()) };
    match outcome::of_bytes(got) {
        Ok(count) => text.truncate(count),
        Err(errno) => return Served::Done(Err(errno)),
    }
    datagram::send(to, held, &mut Spans::one(text.as_ptr().cast(), text.len()), None, flags)
}
