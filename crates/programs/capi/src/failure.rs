//! How a call fails: a negative number, and a sentence for `calisto_error`.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use calisto_client::{AttachError, Detached};

/// A null pointer, a number out of range, or a packet that is not with the application.
pub const CALISTO_INVALID: c_int = -1;
/// The attachment has ended: detach, and attach again.
pub const CALISTO_DETACHED: c_int = -2;
/// Another thread is in a call for the same worker.
pub const CALISTO_BUSY: c_int = -3;
/// No daemon answers: it may be started later.
pub const CALISTO_NO_DAEMON: c_int = -4;
/// The daemon refused: the same request will be refused again.
pub const CALISTO_REFUSED: c_int = -5;
/// The packet is no UDP packet that can be answered, or the answer has no room in it.
pub const CALISTO_NOT_UDP: c_int = -6;
/// The kernel refused something.
pub const CALISTO_SYSTEM: c_int = -7;
/// A bug of this library.
pub const CALISTO_PANIC: c_int = -8;

/// A failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    /// As errno counts, or 0.
    pub(crate) errno: c_int,
    /// Made only when it is asked for would be cheaper, but nothing fails often.
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn invalid(text: &str) -> Self {
        Self { code: CALISTO_INVALID, errno: 0, text: text.to_owned() }
    }
}

impl From<Detached> for Failure {
    fn from(detached: Detached) -> Self {
        Self { code: CALISTO_DETACHED, errno: 0, text: detached.to_string() }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // One that the kernel has no number for is a time that is up.
        let errno = error.raw_os_error().unwrap_or(match error.kind() {
            std::io::ErrorKind::TimedOut => ETIMEDOUT,
            _ => EIO,
        });
        Self { code: CALISTO_SYSTEM, errno, text: error.to_string() }
    }
}

/// Of asm-generic/errno-base.h and errno.h.
const EIO: c_int = 5;
const ETIMEDOUT: c_int = 110;

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        let code = match &error {
            AttachError::System(_) => CALISTO_SYSTEM,
            AttachError::Detached(_) => CALISTO_DETACHED,
            AttachError::Refused(_) | AttachError::Protocol(_) => CALISTO_REFUSED,
            _ => CALISTO_NO_DAEMON,
        };
        Self { code, errno: 0, text: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
    static LAST_ERRNO: Cell<c_int> = const { Cell::new(0) };
}

/// Of the call of this library that failed last in this thread: what the kernel would have set
/// errno to (errno(3)), such as ECONNRESET or EAGAIN, if it returned CALISTO_SYSTEM; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn calisto_errno() -> c_int {
    LAST_ERRNO.get()
}

/// What [`keep`] kept last in this thread. The pointer is good until it keeps something else.
pub(crate) fn last() -> *const std::ffi::c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// Keeps a sentence for this thread.
pub(crate) fn keep(text: &str) {
    let text: String = text.chars().filter(|&character| character != '\0').collect();
    let text = CString::new(text).expect("its zeros have just been taken out");
    LAST.with_borrow_mut(|last| *last = text);
}

/// Runs a call: no panic gets out, and a failure is kept.
pub(crate) fn call(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    // What a panic has left half done is a worker's affair, and each call checks what it uses.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Failure {
            code: CALISTO_PANIC,
            errno: 0,
            text: "a bug of libcalisto: please report what it printed".to_owned(),
        })
    });
    match result {
        Ok(value) => value,
        Err(failure) => {
            keep(&failure.text);
            LAST_ERRNO.set(failure.errno);
            failure.code
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn last_text() -> String {
        // SAFETY: the text of this thread, which nothing replaces meanwhile.
        unsafe { CStr::from_ptr(last()) }.to_str().expect("it was a string").to_owned()
    }

    #[test]
    fn a_panic_becomes_a_number_and_a_sentence() {
        assert_eq!(call(|| panic!("a test's own")), CALISTO_PANIC);
        assert!(last_text().contains("a bug of libcalisto"));
        assert_eq!(call(|| Ok(3)), 3);
    }

    #[test]
    fn a_zero_inside_a_sentence_does_not_cut_it() {
        assert_eq!(call(|| Err(Failure::invalid("one\0two"))), CALISTO_INVALID);
        assert_eq!(last_text(), "onetwo");
    }
}
