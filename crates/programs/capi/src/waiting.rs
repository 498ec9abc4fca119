//! Waking the daemon, and waiting to be woken by it.

use std::ffi::c_int;
use std::os::fd::AsRawFd;

use calisto_client::Nanos;

use crate::worker::{CalistoWorker, Inner, with};

/// As a timeout: without end.
pub const CALISTO_FOREVER: u64 = u64::MAX;

/// Shows the daemon what was sent and given back, and wakes it if it sleeps. Returns 0, or a
/// negative number.
///
/// # Safety
/// As for calisto_receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_flush(worker: *mut CalistoWorker) -> c_int {
    let flush = |inner: &mut Inner| {
        inner.worker.flush();
        Ok(0)
    };
    // SAFETY: as the caller says.
    unsafe { with(worker, flush) }
}

/// Waits until there is something to receive, `timeout_ns` nanoseconds at most (or
/// CALISTO_FOREVER). Returns 1 if there is, 0 if not, or a negative number: CALISTO_DETACHED at
/// once when the daemon dies. A signal ends it early. What was given back is shown to the daemon,
/// as by calisto_flush.
///
/// # Safety
/// As for calisto_receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_wait(worker: *mut CalistoWorker, timeout_ns: u64) -> c_int {
    let wait = |inner: &mut Inner| Ok(c_int::from(inner.worker.wait(Nanos(timeout_ns))?));
    // SAFETY: as the caller says.
    unsafe { with(worker, wait) }
}

/// For a loop of the application's own: a descriptor that poll finds readable when the daemon has
/// woken this worker (after calisto_arm), and hung up when the daemon is gone. Do not read or close
/// it. Returns it, or a negative number.
///
/// # Safety
/// As for calisto_receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_fd(worker: *mut CalistoWorker) -> c_int {
    // SAFETY: as the caller says.
    unsafe { with(worker, |inner| Ok(inner.worker.fd().as_raw_fd())) }
}

/// Asks to be woken through calisto_fd. Returns 1 when there is something to receive already (do
/// not sleep), or 0, or a negative number. Call calisto_disarm after every sleep.
///
/// # Safety
/// As for calisto_receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_arm(worker: *mut CalistoWorker) -> c_int {
    // SAFETY: as the caller says.
    unsafe { with(worker, |inner| Ok(c_int::from(inner.worker.arm()))) }
}

/// Takes back what calisto_arm asked for. Returns 0, or a negative number.
///
/// # Safety
/// As for calisto_receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_disarm(worker: *mut CalistoWorker) -> c_int {
    let disarm = |inner: &mut Inner| {
        inner.worker.disarm();
        Ok(0)
    };
    // SAFETY: as the caller says.
    unsafe { with(worker, disarm) }
}
