//! pthread_cancel(3): libc's, and the signal that ends our waits: see [`crate::wait::cancel`].

use libc::{c_int, clockid_t, pthread_t};

use crate::system::{raw, real};

/// The signal that libc has kept for this: the first of the real-time ones, which programs never
/// see.
const CANCEL: c_int = 32;

unsafe extern "C" {
    fn pthread_getcpuclockid(thread: pthread_t, clock: *mut clockid_t) -> c_int;
}

/// pthread_cancel(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn pthread_cancel(thread: pthread_t) -> c_int {
    // The clock's number has the thread's in it, as the kernel counts clocks; a thread that was not
    // joined has one. Asked first: the thread may be gone afterwards.
    let mut clock: clockid_t = 0;
    // SAFETY: the caller's promise: there is such a thread.
    let has_clock = unsafe { pthread_getcpuclockid(thread, &raw mut clock) } == 0;
    // SAFETY: the caller's argument.
    let result = unsafe { real::pthread_cancel(thread) };
    if result == 0 && has_clock {
        let number = (!(clock >> 3)) as usize;
        // SAFETY: plain numbers; libc has set the handler before it returned, and a thread that is
        // gone is an error that changes nothing.
        unsafe {
            let process = raw::process_id() as usize;
            raw::call(libc::SYS_tgkill, [process, number, CANCEL as usize, 0, 0, 0]);
        }
    }
    result
}
