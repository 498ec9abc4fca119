//! Streams of stdio over sockets of ours: libc's own calls never pass by here, so the stream gets
//! ours.
//!
//! Such a stream reads and writes its number by us, whatever that is by then: a socket of ours,
//! one that is none yet, or something of the kernel's. libc's streams of the numbers 0 to 2 are
//! given such a stream as soon as their number is an internet socket (a server that puts its
//! caller at its standard output and prints). Who keeps the address of the old one, as std::cout
//! does, goes on with that.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_char, c_int, c_void, off64_t, size_t, ssize_t};
use rustix::io::Errno;

use crate::calls::{close, receive, send};
use crate::entry::descriptors;
use crate::process::lookup;
use crate::system::{fork, kernel_socket, outcome, real};

#[repr(C)]
struct CookieFunctions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// The beginning of `struct _IO_FILE`, which is the same in every glibc (bits/types/struct_FILE.h):
/// macros of programs have looked into it.
#[repr(C)]
struct Stream {
    flags: c_int,
    read_next: *mut c_char,
    read_end: *mut c_char,
    read_base: *mut c_char,
    write_base: *mut c_char,
    write_next: *mut c_char,
    /// Ends and bases of other buffers, two lists.
    between: [*mut c_void; 8],
    number: c_int,
}

const _: () = assert!(std::mem::offset_of!(Stream, number) == 112);

unsafe extern "C" {
    static mut stdin: *mut Stream;
    static mut stdout: *mut Stream;
    static mut stderr: *mut Stream;
    fn fopencookie(
        cookie: *mut c_void,
        mode: *const c_char,
        functions: CookieFunctions,
    ) -> *mut Stream;
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __fpurge(stream: *mut Stream);
    fn __flbf(stream: *mut Stream) -> c_int;
}

/// Has libc's streams stand over the sockets that the program begins with.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // Nothing else of ours may have begun yet.
    (0..=2).filter(|&fd| kernel_socket::kind_of(fd).is_some()).for_each(replace);
}

/// Whether a number is a socket that is ours or may become so.
fn may_be_ours(fd: c_int) -> bool {
    outcome::unheard(|| lookup::socket(fd).is_some() || kernel_socket::kind_of(fd).is_some())
}

/// fdopen(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void {
    if mode.is_null() || !may_be_ours(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { real::fdopen(fd, mode) };
    }
    // SAFETY: the caller's promise: a text.
    unsafe { open(fd, mode) }.cast()
}

/// A stream over a number, by our calls; null if there is no memory, or no such mode.
///
/// # Safety
/// The mode is a text.
unsafe fn open(fd: c_int, mode: *const c_char) -> *mut Stream {
    let functions = CookieFunctions { read: take, write: put, seek, close: end };
    let cookie = COOKIE | fd as usize & NUMBER;
    // SAFETY: the functions live as long as the library.
    let stream = unsafe { fopencookie(std::ptr::without_provenance_mut(cookie), mode, functions) };
    if !stream.is_null() {
        // For fileno(3), and for freopen(3), which gives the new file the same number.
        // SAFETY: it was just made, with that beginning.
        unsafe { (*stream).number = fd };
        // SAFETY: whatever it looks like, it is larger than this: `struct _IO_FILE` is.
        let table = unsafe { *stream.cast::<*mut c_void>().add(TABLE_AT) };
        // SAFETY: behind the stream come the cookie and its functions, four of them.
        if unsafe { *stream.cast::<usize>().add(COOKIE_AT) } == cookie {
            TABLE.store(table, Ordering::Relaxed);
        }
    }
    stream
}

/// A number was given to a socket: if it is one from 0 to 2, libc's stream of it is to be one by
/// our calls. What was printed, and not written yet, is written by that.
pub(crate) fn stand_in(fd: c_int) {
    if (0..=2).contains(&fd) && !fork::is_borrowed() && may_be_ours(fd) {
        replace(fd);
    }
}

/// Has libc's stream of a number from 0 to 2 be one by our calls, unless it is, or is the program's
/// own.
fn replace(fd: c_int) {
    let (place, mode) = match fd {
        0 => (&raw mut stdin, c"r"),
        1 => (&raw mut stdout, c"w"),
        _ => (&raw mut stderr, c"w"),
    };
    // SAFETY: libc's variables, which it lets programs set; who does so while other threads print
    // has the same race with them as with the number itself.
    let old = unsafe { *place };
    // SAFETY: streams are never freed before they are closed; null is left alone.
    if old.is_null() || unsafe { is_by_us(old) || (*old).number != fd } {
        return;
    }
    // SAFETY: a text.
    let new = unsafe { open(fd, mode.as_ptr()) };
    if new.is_null() {
        return;
    }
    // SAFETY: both are streams; the pointers are those of the old one's buffers.
    unsafe {
        let buffering = if fd == 2 {
            libc::_IONBF
        } else if __flbf(old) != 0 {
            libc::_IOLBF
        } else {
            libc::_IOFBF
        };
        libc::setvbuf(new.cast(), std::ptr::null_mut(), buffering, libc::BUFSIZ as usize);
        if fd == 0 {
            let mut next = (*old).read_end;
            while next > (*old).read_next {
                next = next.sub(1);
                libc::ungetc(c_int::from(next.cast::<u8>().read()), new.cast());
            }
        } else if (*old).write_next > (*old).write_base {
            let bytes = (*old).write_next.offset_from((*old).write_base).unsigned_abs();
            libc::fwrite((*old).write_base.cast(), 1, bytes, new.cast());
        }
        __fpurge(old);
        *place = new;
    }
    BY_US[fd as usize].store(new.cast(), Ordering::Relaxed);
}

/// Ours of libc's three.
static BY_US: [AtomicPtr<c_void>; 3] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 3];

fn is_by_us(stream: *mut Stream) -> bool {
    BY_US.iter().any(|known| known.load(Ordering::Relaxed) == stream.cast())
}

/// freopen(3). libc closes the stream's number and gives it to another file, unseen by us, and
/// knows only streams of its own.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        match is_ours(stream) {
            true => reopen(path, mode, stream.cast()),
            false => real::freopen(path, mode, stream),
        }
    }
}

/// freopen(3) for large files.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        match is_ours(stream) {
            true => reopen(path, mode, stream.cast()),
            false => real::freopen64(path, mode, stream),
        }
    }
}

/// Whether a stream is one by our calls. One of libc's over a number that is ours is told of its
/// end.
///
/// # Safety
/// It is a stream, or null.
unsafe fn is_ours(stream: *mut c_void) -> bool {
    if stream.is_null() {
        return false;
    }
    let table = TABLE.load(Ordering::Relaxed);
    // SAFETY: the caller's promise: each stream has a table. Behind those with this one is a
    // cookie.
    unsafe {
        if !table.is_null() && *stream.cast::<*mut c_void>().add(TABLE_AT) == table {
            return *stream.cast::<usize>().add(COOKIE_AT) & !NUMBER == COOKIE;
        }
        let fd = (*stream.cast::<Stream>()).number;
        if fd >= 0 && !descriptors::is_plain(fd) && !fork::is_borrowed() {
            libc::fflush(stream.cast());
            outcome::unheard(|| close::forget(fd));
        }
    }
    false
}

/// The table of functions of streams with a cookie, once one was made, and it was as is said here.
static TABLE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Words of `struct _IO_cookie_file` of glibc: where a stream's table is, and then its cookie.
const TABLE_AT: usize = 216 / size_of::<usize>();
const COOKIE_AT: usize = TABLE_AT + 1;

/// Our cookies: this, and the number below. It is the address of nothing.
const COOKIE: usize = 0xca11_5700_0000_0000;
const NUMBER: usize = 0xffff_ffff;

/// A stream of ours stays one: it reads and writes its number, which is another file's now.
///
/// # Safety
/// As for freopen(3).
unsafe fn reopen(path: *const c_char, mode: *const c_char, stream: *mut Stream) -> *mut c_void {
    let mut own = [0_u8; 32];
    // SAFETY: the caller's promise: a stream, and texts.
    unsafe {
        libc::fflush(stream.cast());
        let fd = (*stream).number;
        let path = if path.is_null() {
            libc::snprintf(own.as_mut_ptr().cast(), own.len(), c"/proc/self/fd/%d".as_ptr(), fd);
            own.as_ptr().cast()
        } else {
            path
        };
        let (flags, stream_flags) = flags_of(CStr::from_ptr(mode).to_bytes());
        let made = libc::open(path, flags, 0o666);
        if made < 0 {
            outcome::unheard(|| libc::fclose(stream.cast()));
            return std::ptr::null_mut();
        }
        if made != fd {
            close::forget(fd);
            real::dup3(made, fd, flags & libc::O_CLOEXEC);
            real::close(made);
        }
        __fpurge(stream);
        libc::clearerr(stream.cast());
        (*stream).flags = (*stream).flags & !(NO_READS | NO_WRITES | APPENDS) | stream_flags;
    }
    stream.cast()
}

/// Flags of a stream: `_IO_NO_READS`, `_IO_NO_WRITES`, `_IO_IS_APPENDING` of glibc.
const NO_READS: c_int = 0x4;
const NO_WRITES: c_int = 0x8;
const APPENDS: c_int = 0x1000;

/// What a mode of fopen(3) means for the file, and for the stream.
fn flags_of(mode: &[u8]) -> (c_int, c_int) {
    // What follows a comma is about character sets.
    let mode = mode.split(|&letter| letter == b',').next().unwrap_or_default();
    let (mut flags, mut stream_flags) = match mode.first() {
        Some(b'r') => (libc::O_RDONLY, NO_WRITES),
        Some(b'a') => (libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND, NO_READS | APPENDS),
        _ => (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, NO_READS),
    };
    for letter in mode {
        match letter {
            b'+' => {
                flags = flags & !libc::O_ACCMODE | libc::O_RDWR;
                stream_flags &= !(NO_READS | NO_WRITES);
            }
            b'e' => flags |= libc::O_CLOEXEC,
            b'x' => flags |= libc::O_EXCL,
            _ => {}
        }
    }
    (flags, stream_flags)
}

/// The number that a cookie of ours names.
fn number(cookie: *mut c_void) -> c_int {
    (cookie.addr() & NUMBER) as c_int
}

unsafe extern "C" fn take(cookie: *mut c_void, to: *mut c_char, bytes: size_t) -> ssize_t {
    // SAFETY: stdio's own buffer.
    unsafe { receive::read(number(cookie), to.cast(), bytes) }
}

/// All of it, as a stream of libc's: a part that was written says that the rest failed.
unsafe extern "C" fn put(cookie: *mut c_void, from: *const c_char, bytes: size_t) -> ssize_t {
    let mut done = 0;
    while done < bytes {
        // SAFETY: stdio's own buffer.
        let sent = unsafe { send::write(number(cookie), from.add(done).cast(), bytes - done) };
        match usize::try_from(sent) {
            Ok(count) => done += count,
            Err(_) => break,
        }
    }
    done as ssize_t
}

/// A socket has no places (ESPIPE); a file that has its number by now has.
unsafe extern "C" fn seek(cookie: *mut c_void, at: *mut off64_t, from: c_int) -> c_int {
    // SAFETY: stdio's own place, and plain numbers.
    let found = unsafe { libc::lseek64(number(cookie), *at, from) };
    if found < 0 {
        return -1;
    }
    // SAFETY: likewise.
    unsafe { *at = found };
    0
}

unsafe extern "C" fn end(cookie: *mut c_void) -> c_int {
    // SAFETY: a plain number.
    unsafe { close::close(number(cookie)) }
}

/// vdprintf(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    let mut text: *mut c_char = std::ptr::null_mut();
    // SAFETY: the caller's arguments; the text is ours to free.
    let bytes = unsafe { vasprintf(&raw mut text, format, arguments) };
    let Ok(count) = usize::try_from(bytes) else { return outcome::failed(Errno::NOMEM) };
    // SAFETY: that many bytes were written there.
    let sent = unsafe { send::write(fd, text.cast(), count) };
    // SAFETY: vasprintf has taken it from malloc.
    unsafe { libc::free(text.cast()) };
    sent as c_int
}

/// vdprintf(3) as programs call it that were built to check their formats.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn vdprintf_checked(
    fd: c_int,
    _flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { vdprintf(fd, format, arguments) }
}
