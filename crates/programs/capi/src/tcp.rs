//! TCP: connections and listeners.

use std::ffi::{c_char, c_int, c_void};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use calisto_client::sockets::{TcpListener, TcpStream};

use crate::failure::{Failure, call};
use crate::session::{CalistoSession, address, given, release, store, write_address};
use crate::waiting::CALISTO_FOREVER;

/// A TCP connection. One thread may read while another one writes.
#[derive(Debug)]
pub struct CalistoStream {
    stream: TcpStream,
}

/// A TCP listener. Any number of threads may accept.
#[derive(Debug)]
pub struct CalistoListener {
    listener: TcpListener,
}

/// Connects to `to` (such as "10.0.0.2:7"), waits for that for at most `timeout_ns` nanoseconds (or
/// CALISTO_FOREVER), and stores the connection in `*stream`. What the daemon does not take is the
/// kernel's. Returns 0, or a negative number.
///
/// # Safety
/// `session` is open, `to` ends with a zero, and `stream` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_connect(
    session: *const CalistoSession,
    to: *const c_char,
    timeout_ns: u64,
    stream: *mut *mut CalistoStream,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let (session, to) = unsafe { (given(session)?, address(to)?) };
        let connect = || {
            let stream = match limit(timeout_ns) {
                None => TcpStream::connect(&session.session, to),
                Some(timeout) => TcpStream::connect_timeout(&session.session, to, timeout),
            };
            Ok(CalistoStream { stream: stream? })
        };
        // SAFETY: as the caller says.
        unsafe { store(stream, connect) }
    })
}

/// Listens on `at` (such as "0.0.0.0:7"; port 0: one that is free) and stores the listener in
/// `*listener`. Returns 0, or a negative number.
///
/// # Safety
/// `session` is open, `at` ends with a zero, and `listener` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_listen(
    session: *const CalistoSession,
    at: *const c_char,
    listener: *mut *mut CalistoListener,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let (session, at) = unsafe { (given(session)?, address(at)?) };
        let bind = || Ok(CalistoListener { listener: TcpListener::bind(&session.session, at)? });
        // SAFETY: as the caller says.
        unsafe { store(listener, bind) }
    })
}

/// Waits for a connection and stores it in `*stream`. Returns 0, or a negative number.
///
/// # Safety
/// `listener` is open, and `stream` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_accept(
    listener: *const CalistoListener,
    stream: *mut *mut CalistoStream,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let listener = unsafe { given(listener) }?;
        let accept = || Ok(CalistoStream { stream: listener.listener.accept()?.0 });
        // SAFETY: as the caller says.
        unsafe { store(stream, accept) }
    })
}

/// Writes the address that a listener has, as text, to `to`, which has room for `bytes` bytes.
/// Returns its length, or a negative number.
///
/// # Safety
/// `listener` is open, and that many bytes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_listener_address(
    listener: *const CalistoListener,
    to: *mut c_char,
    bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let listener = unsafe { given(listener) }?;
        // SAFETY: as the caller says.
        unsafe { write_address(listener.listener.local_addr()?, to, bytes) }
    })
}

/// Writes the address of a connection's peer, as calisto_tcp_listener_address does.
///
/// # Safety
/// `stream` is open, and that many bytes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_peer_address(
    stream: *const CalistoStream,
    to: *mut c_char,
    bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let stream = unsafe { given(stream) }?;
        // SAFETY: as the caller says.
        unsafe { write_address(stream.stream.peer_addr()?, to, bytes) }
    })
}

/// Waits for bytes and reads up to `bytes` of them (2^31 - 1 at most) to `to`. Returns how many, 0
/// at the end of the stream, or a negative number.
///
/// # Safety
/// `stream` is open, and that many bytes can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_read(
    stream: *const CalistoStream,
    to: *mut c_void,
    bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let stream = unsafe { given(stream) }?;
        // SAFETY: as the caller says.
        let to = unsafe { room(to, bytes) }?;
        Ok((&stream.stream).read(to)? as c_int)
    })
}

/// Waits for room and writes some of `bytes` bytes from `from`. Returns how many, or a negative
/// number. A peer that is gone makes no SIGPIPE.
///
/// # Safety
/// `stream` is open, and that many bytes can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_write(
    stream: *const CalistoStream,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let stream = unsafe { given(stream) }?;
        // SAFETY: as the caller says.
        let from = unsafe { content(from, bytes) }?;
        Ok((&stream.stream).write(from)? as c_int)
    })
}

/// A read waits for `read_ns` and a write for `write_ns` nanoseconds at most (or CALISTO_FOREVER);
/// then they fail with CALISTO_SYSTEM and EAGAIN. Returns 0, or a negative number.
///
/// # Safety
/// `stream` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_set_timeouts(
    stream: *const CalistoStream,
    read_ns: u64,
    write_ns: u64,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let stream = unsafe { given(stream) }?;
        stream.stream.set_read_timeout(limit(read_ns))?;
        stream.stream.set_write_timeout(limit(write_ns))?;
        Ok(0)
    })
}

/// Whether small segments are sent at once (1) or wait for acknowledgements (0): TCP_NODELAY.
/// Returns 0, or a negative number.
///
/// # Safety
/// `stream` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_set_nodelay(
    stream: *const CalistoStream,
    is_on: c_int,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { given(stream) }?.stream.set_nodelay(is_on != 0)?;
        Ok(0)
    })
}

/// Ends the sending: the peer sees the end of the stream. Returns 0, or a negative number.
///
/// # Safety
/// `stream` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_shutdown(stream: *const CalistoStream) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { given(stream) }?.stream.shutdown(Shutdown::Write)?;
        Ok(0)
    })
}

/// Returns 1 if the daemon serves the connection, 0 if the kernel does, or a negative number.
///
/// # Safety
/// `stream` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_is_accelerated(stream: *const CalistoStream) -> c_int {
    // SAFETY: as the caller says.
    call(|| Ok(c_int::from(unsafe { given(stream) }?.stream.is_accelerated())))
}

/// Closes a connection: what was written is still sent. No call for it may be under way or follow.
/// Null does nothing.
///
/// # Safety
/// `stream` is open, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_close(stream: *mut CalistoStream) {
    // SAFETY: as the caller says.
    unsafe { release(stream) };
}

/// Closes a listener. No call for it may be under way or follow. Null does nothing.
///
/// # Safety
/// `listener` is open, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_tcp_unlisten(listener: *mut CalistoListener) {
    // SAFETY: as the caller says.
    unsafe { release(listener) };
}

/// A time of C's, in nanoseconds; none: without end.
pub(crate) fn limit(nanos: u64) -> Option<Duration> {
    (nanos != CALISTO_FOREVER).then(|| Duration::from_nanos(nanos.max(1)))
}

/// What C lets us write to, as much of it as a result can count.
///
/// # Safety
/// That many bytes can be written there, or it is null.
pub(crate) unsafe fn room<'a>(to: *mut c_void, bytes: usize) -> Result<&'a mut [u8], Failure> {
    if to.is_null() {
        return Err(Failure::invalid("the bytes to be filled are null"));
    }
    // SAFETY: as the caller says; nothing reads them before they are written.
    Ok(unsafe { std::slice::from_raw_parts_mut(to.cast(), bytes.min(c_int::MAX as usize)) })
}

/// What C gives us to read, as much of it as a result can count.
///
/// # Safety
/// That many bytes can be read there, or it is null.
pub(crate) unsafe fn content<'a>(from: *const c_void, bytes: usize) -> Result<&'a [u8], Failure> {
    if from.is_null() {
        return Err(Failure::invalid("the bytes to be sent are null"));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(from.cast(), bytes.min(c_int::MAX as usize)) })
}
