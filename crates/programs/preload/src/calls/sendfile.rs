//! sendfile(2): the bytes of a file go straight into the data plane's memory.

use calisto_client::sockets::Piece;
use libc::{c_int, c_void, off64_t, size_t, ssize_t};
use rustix::io::Errno;

use crate::calls::served::Served;
use crate::calls::spans::Spans;
use crate::calls::{datagram, send};
use crate::entry::Held;
use crate::entry::file::Kind;
use crate::process::lookup;
use crate::system::{copy, faults, outcome, real};

/// sendfile(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sendfile(to: c_int, from: c_int, at: *mut off64_t, bytes: size_t) -> ssize_t {
    let Some(held) = lookup::socket(to) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::sendfile64(to, from, at, bytes) };
    };
    // SAFETY: the caller's promise.
    match unsafe { send_file(to, &held, from, at, bytes) } {
        Served::Done(result) => outcome::bytes(result),
        // SAFETY: the caller's arguments.
        Served::Elsewhere => unsafe { real::sendfile64(to, from, at, bytes) },
    }
}

unsafe fn send_file(
    to: c_int,
    held: &Held,
    from: c_int,
    at: *mut off64_t,
    bytes: usize,
) -> Served<usize> {
    faults::watch();
    let start = match at.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => match unsafe { copy::get(at) } {
            Ok(start) if start >= 0 => Some(start),
            Ok(_) => return Served::Done(Err(Errno::INVAL)),
            Err(errno) => return Served::Done(Err(errno)),
        },
    };
    match source_of(from) {
        Ok(Source::File) => {}
        Ok(Source::Seekable) => {
            // SAFETY: the caller's promise.
            return Served::Done(unsafe { copied(to, from, at, start, bytes) });
        }
        // What has no places to read at has none that could be named, and is spliced, not sent:
        // what did not go would be lost (`splice_direct_to_actor`).
        Ok(Source::Flow) if start.is_some() => return Served::Done(Err(Errno::SPIPE)),
        Ok(Source::Flow) => return Served::Done(Err(Errno::INVAL)),
        Err(errno) => return Served::Done(Err(errno)),
    }
    if held.file().is_some_and(|file| file.kind == Kind::Datagram) {
        // SAFETY: the caller's promise.
        return unsafe { send_datagram(to, held, from, at, bytes) };
    }
    let mut done: off64_t = 0;
    let mut is_end = false;
    let served = send::part_of_stream(to, held, bytes.min(0x7fff_f000), 0, |piece| {
        if is_end {
            return Err(Errno::NODATA);
        }
        let count = read_file(from, start.map(|start| start + done), piece)?;
        if count == 0 {
            // Nothing to wait for, unlike a socket without room.
            return Err(Errno::NODATA);
        }
        is_end = count < piece.len();
        done += count as off64_t;
        Ok(count)
    });
    let served = match served {
        // The file ended: what it had is sent.
        Served::Done(Err(Errno::NODATA)) => Served::Done(Ok(done as usize)),
        other => other,
    };
    if let (Some(start), Served::Done(Ok(_))) = (start, &served) {
        // SAFETY: the caller's promise.
        if let Err(errno) = unsafe { copy::put(at, &(start + done)) } {
            return Served::Done(Err(errno));
        }
    }
    served
}

/// What sendfile(2) reads from.
enum Source {
    /// A regular file.
    File,
    /// A device that has places.
    Seekable,
    /// A pipe, a socket, a terminal; a folder too, which cannot be read.
    Flow,
}

fn source_of(fd: c_int) -> Result<Source, Errno> {
    // SAFETY: it takes no argument.
    let flags = outcome::of(unsafe { real::fcntl(fd, libc::F_GETFL, 0) })?;
    if flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Errno::BADF);
    }
    // SAFETY: all zero is a valid one.
    let mut found = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: `found` is ours.
    outcome::of(unsafe { libc::fstat(fd, &raw mut found) })?;
    Ok(match found.st_mode & libc::S_IFMT {
        libc::S_IFREG => Source::File,
        // SAFETY: plain numbers.
        libc::S_IFBLK | libc::S_IFCHR if unsafe { libc::lseek64(fd, 0, libc::SEEK_CUR) } >= 0 => {
            Source::Seekable
        }
        _ => Source::Flow,
    })
}

/// Room for any datagram, and one byte more, by which too long a one is known.
pub(crate) const DATAGRAM_ROOM: usize = 1 << 16;

/// Of a file into a UDP socket: one datagram (`splice_to_socket`), and nothing of what would not
/// fit into one.
///
/// # Safety
/// Reading and writing `at` is the program's wish.
unsafe fn send_datagram(
    to: c_int,
    held: &Held,
    from: c_int,
    at: *mut off64_t,
    bytes: usize,
) -> Served<usize> {
    let start = match at.is_null() {
        // SAFETY: plain numbers.
        true => unsafe { libc::lseek64(from, 0, libc::SEEK_CUR) },
        // SAFETY: the caller's promise.
        false => match unsafe { copy::get(at) } {
            Ok(start) => start,
            Err(errno) => return Served::Done(Err(errno)),
        },
    };
    let mut text = vec![0_u8; bytes.min(DATAGRAM_ROOM)];
    // SAFETY: `text` has so much room.
    let got = unsafe { libc::pread64(from, text.as_mut_ptr().cast(), text.len(), start) };
    match outcome::of_bytes(got) {
        Ok(count) => text.truncate(count),
        Err(errno) => return Served::Done(Err(errno)),
    }
    if text.is_empty() {
        return Served::Done(Ok(0));
    }
    let served =
        datagram::send(to, held, &mut Spans::one(text.as_ptr().cast(), text.len()), None, 0);
    if let Served::Done(Ok(sent)) = served {
        let next = start + sent as off64_t;
        let moved = if at.is_null() {
            // SAFETY: plain numbers.
            match unsafe { libc::lseek64(from, next, libc::SEEK_SET) } {
                0.. => Ok(()),
                _ => Err(outcome::last_errno()),
            }
        } else {
            // SAFETY: the caller's promise.
            unsafe { copy::put(at, &next) }
        };
        if let Err(errno) = moved {
            return Served::Done(Err(errno));
        }
    }
    served
}

fn read_file(fd: c_int, at: Option<off64_t>, piece: Piece<'_>) -> Result<usize, Errno> {
    let (to, room) = (piece.as_ptr().cast::<c_void>(), piece.len());
    // SAFETY: the piece is memory of ours, of that length, that bytes are copied to.
    outcome::of_bytes(unsafe {
        match at {
            Some(at) => libc::pread64(fd, to, room, at),
            None => real::read(fd, to, room),
        }
    })
}

/// Of a device, by a buffer: it may give less than it is asked for and have more.
///
/// # Safety
/// Writing to `place` is the program's wish.
unsafe fn copied(
    to: c_int,
    from: c_int,
    place: *mut off64_t,
    start: Option<off64_t>,
    bytes: usize,
) -> Result<usize, Errno> {
    let mut buffer = [0_u8; 16 << 10];
    let mut done = 0;
    let mut end = Ok(());
    while done < bytes && end.is_ok() {
        let room = buffer.len().min(bytes - done);
        let to_buffer = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: `buffer` has so much room.
        let got = outcome::of_bytes(unsafe {
            match start {
                Some(start) => libc::pread64(from, to_buffer, room, start + done as off64_t),
                None => real::read(from, to_buffer, room),
            }
        });
        let got = match got {
            Ok(0) => break,
            Ok(got) => got,
            Err(errno) => {
                end = Err(errno);
                break;
            }
        };
        let mut sent = 0;
        while sent < got {
            // SAFETY: the bytes are ours.
            let result = unsafe { send::write(to, buffer[sent..got].as_ptr().cast(), got - sent) };
            match outcome::of_bytes(result) {
                Ok(count) => sent += count,
                Err(errno) => {
                    end = Err(errno);
                    break;
                }
            }
        }
        done += sent;
        if start.is_none() && sent < got {
            // What did not go is read again.
            // SAFETY: plain numbers.
            unsafe { libc::lseek64(from, sent as off64_t - got as off64_t, libc::SEEK_CUR) };
        }
    }
    if let (0, Err(errno)) = (done, end) {
        return Err(errno);
    }
    if let Some(start) = start {
        // SAFETY: the caller's promise.
        unsafe { copy::put(place, &(start + done as off64_t))? };
    }
    Ok(done)
}
