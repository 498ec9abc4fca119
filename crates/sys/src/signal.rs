//! SIGINT and SIGTERM as a flag.
//!
//! The handler does nothing but store to atomics, so it is safe at any instruction; sleeping
//! system calls return EINTR (no SA_RESTART), and loops look at the flag.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::SysError;

static STOP_SIGNALS: AtomicU32 = AtomicU32::new(0);

/// Signals that ask a program to end.
const STOP: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

extern "C" fn on_stop(_signal: libc::c_int) {
    STOP_SIGNALS.fetch_add(1, Ordering::Release);
}

/// From now on SIGINT and SIGTERM only set the flag.
///
/// # Errors
/// Never in practice: the signals and the handler are constants.
pub fn install_stop_handler() -> Result<(), SysError> {
    let handler: extern "C" fn(libc::c_int) = on_stop;
    STOP.iter().try_for_each(|&signal| set_action(signal, handler as libc::sighandler_t))
}

/// SIGINT and SIGTERM end the process again: for a second Ctrl-C while cleaning up.
///
/// # Errors
/// As [`install_stop_handler`].
pub fn restore_default() -> Result<(), SysError> {
    STOP.iter().try_for_each(|&signal| set_action(signal, libc::SIG_DFL))
}

/// A write to a closed pipe or socket gives EPIPE instead of ending the process (true, what Rust
/// programs start with), or ends it (false, what a filter like `head` expects).
///
/// # Errors
/// As [`install_stop_handler`].
pub fn ignore_broken_pipes(ignore: bool) -> Result<(), SysError> {
    set_action(libc::SIGPIPE, if ignore { libc::SIG_IGN } else { libc::SIG_DFL })
}

/// Whether a stop signal has come since [`install_stop_handler`].
#[inline]
pub fn stop_requested() -> bool {
    stop_count() > 0
}

/// How many stop signals have come: the second one may be less patient.
#[inline]
pub fn stop_count() -> u32 {
    STOP_SIGNALS.load(Ordering::Acquire)
}

fn set_action(signal: libc::c_int, handler: libc::sighandler_t) -> Result<(), SysError> {
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask, SIG_DFL.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    // SAFETY: `action` is valid, and the handler (if it is ours) only touches atomics, which is
    // safe wherever it interrupts.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(SysError::last(format!("set what signal {signal} does"), ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_signal_sets_the_flag_and_does_not_end_the_process() {
        install_stop_handler().expect("constants are valid");
        let before = stop_count();
        // SAFETY: raising a signal that has a handler runs that handler and returns.
        assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
        assert!(stop_requested());
        assert_eq!(stop_count(), before + 1);
        restore_default().expect("constants are valid");
    }
}
