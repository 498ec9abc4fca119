//! The connection to the daemon for sockets.

use std::ffi::{CStr, c_char, c_int};
use std::net::SocketAddr;
use std::path::PathBuf;

use calisto_client::sockets::{Session, SessionOptions};

use crate::failure::{Failure, call};

/// A process's connection to the daemon for its sockets. Any number of threads may use it.
#[derive(Debug)]
pub struct CalistoSession {
    pub(crate) session: Session,
}

/// Connects to the daemon for sockets, once in each process, and stores that in `*session`.
/// `socket` is the daemon's socket (null: what CALISTO_APPS says, or else /run/calisto/apps.sock),
/// `name` what people call the application. Returns 0, or a negative number.
///
/// # Safety
/// Both texts end with a zero or are null, and `session` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_session_open(
    socket: *const c_char,
    name: *const c_char,
    session: *mut *mut CalistoSession,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let name = unsafe { text(name) }?
            .ok_or_else(|| Failure::invalid("calisto_session_open: `name` is null"))?;
        let mut options = SessionOptions::new(name);
        // SAFETY: as the caller says.
        options.socket = unsafe { text(socket) }?.map(PathBuf::from);
        // SAFETY: as the caller says.
        unsafe { store(session, || Ok(CalistoSession { session: Session::attach(&options)? })) }
    })
}

/// Ends the connection when the last of its sockets is closed. No call for `session` may be under
/// way or follow. Null does nothing.
///
/// # Safety
/// `session` came from calisto_session_open and was not closed, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_session_close(session: *mut CalistoSession) {
    // SAFETY: as the caller says.
    unsafe { release(session) };
}

/// Puts what `make` makes behind a pointer for C; on failure the pointer is null.
///
/// # Safety
/// `place` can be written, or is null.
pub(crate) unsafe fn store<T>(
    place: *mut *mut T,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<c_int, Failure> {
    if place.is_null() {
        return Err(Failure::invalid("there is no place for the result: it is null"));
    }
    // SAFETY: the caller says that it can be written.
    unsafe { place.write(std::ptr::null_mut()) };
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: as above.
    unsafe { place.write(made) };
    Ok(0)
}

/// Frees what [`store`] has stored.
///
/// # Safety
/// It was stored and is used no more, or is null.
pub(crate) unsafe fn release<T>(stored: *mut T) {
    call(|| {
        if !stored.is_null() {
            // SAFETY: `store` made it a box, and the caller gives up every use of it.
            drop(unsafe { Box::from_raw(stored) });
        }
        Ok(0)
    });
}

/// What C points to.
///
/// # Safety
/// It came from this library and was not given back, or is null.
pub(crate) unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: as the caller says; it is only ever shared.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid("the object is null"))
}

/// # Safety
/// `text` is null or ends with a zero.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller says that it ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(Some).map_err(|_| Failure::invalid("a text is not UTF-8"))
}

/// An address such as "10.0.0.2:7" or "[2001:db8::1]:7".
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn address(words: *const c_char) -> Result<SocketAddr, Failure> {
    // SAFETY: as the caller says.
    let words = unsafe { text(words) }?;
    let words = words.ok_or_else(|| Failure::invalid("the address is null"))?;
    words.parse().map_err(|_| {
        Failure::invalid("that is no address and port, such as 10.0.0.2:7 or [2001:db8::1]:7")
    })
}

/// Writes an address as text, with a zero at its end.
///
/// # Safety
/// `to` is null, or `bytes` bytes can be written there.
pub(crate) unsafe fn write_address(
    address: SocketAddr,
    to: *mut c_char,
    bytes: usize,
) -> Result<c_int, Failure> {
    let text = address.to_string();
    if to.is_null() || bytes <= text.len() {
        return Err(Failure::invalid("there is no room for the address: 64 bytes are enough"));
    }
    // SAFETY: the caller says that that many bytes can be written, and the text is shorter.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    Ok(text.len() as c_int)
}
