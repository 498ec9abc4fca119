//! SIGINT and SIGTERM as a flag, SIGHUP as another, and the signal that nudges a thread.
//!
//! The handlers do nothing but store to atomics, so they are safe at any instruction. After a stop
//! signal sleeping system calls return EINTR (no SA_RESTART), and loops look at the flag.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::SysError;

/// What a thread is nudged with, to have it look at its core's word now. SIGURG: hardly any program
/// uses it, and one that does not know of it ignores it, so a nudge never harms.
pub const NUDGE: i32 = libc::SIGURG;

static STOP_SIGNALS: AtomicU32 = AtomicU32::new(0);
static NUDGES: AtomicU32 = AtomicU32::new(0);
static RELOADS: AtomicU32 = AtomicU32::new(0);

/// Signals that ask a program to end.
const STOP: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

extern "C" fn on_stop(_signal: libc::c_int) {
    STOP_SIGNALS.fetch_add(1, Ordering::Release);
}

extern "C" fn on_reload(_signal: libc::c_int) {
    RELOADS.fetch_add(1, Ordering::Release);
}

extern "C" fn on_nudge(_signal: libc::c_int) {
    // Nobody is told anything by this: the count only says that some nudge has come.
    NUDGES.fetch_add(1, Ordering::Relaxed);
}

/// From now on [`NUDGE`] interrupts the thread that it is sent to: a wait (poll, futex, nanosleep)
/// ends, a read or write is taken up again (SA_RESTART, so that code that knows nothing of nudges
/// sees no EINTR where it never saw one). A program with a handler of its own for that signal keeps
/// it (Go's runtime has one): that interrupts as well.
///
/// # Errors
/// As [`install_stop_handler`].
pub fn install_nudge_handler() -> Result<(), SysError> {
    let handler: extern "C" fn(libc::c_int) = on_nudge;
    let before = action_of(NUDGE)?;
    if before != libc::SIG_DFL && before != libc::SIG_IGN {
        return Ok(());
    }
    set_action(NUDGE, handler as libc::sighandler_t, libc::SA_RESTART)
}

/// From now on no signal is handled by the calling thread: those of its process go to the others.
/// What the kernel sends for a thread's own mistake, such as SIGSEGV, still comes.
pub fn hold_all_back() {
    // SAFETY: all-zero bytes are a valid `sigset_t`.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid and ours.
    unsafe { libc::sigfillset(&raw mut all) };
    for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
        // SAFETY: as above.
        unsafe { libc::sigdelset(&raw mut all, fault) };
    }
    // SAFETY: the set is valid; the C library keeps its own signals out. It cannot fail otherwise.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()) };
}

/// Nudges that the threads of this process have had, wrapping. A thread that compares two counts
/// knows that one came, perhaps to another thread.
#[inline]
pub fn nudge_count() -> u32 {
    NUDGES.load(Ordering::Relaxed)
}

/// Sends [`NUDGE`] to thread `tid` of process `pid`, by number: the caller has made sure of both.
pub(crate) fn nudge_by_number(pid: u32, tid: rustix::process::Pid) -> Result<(), SysError> {
    // SAFETY: takes plain numbers.
    match unsafe { libc::syscall(libc::SYS_tgkill, pid, tid.as_raw_nonzero().get(), NUDGE) } {
        0 => Ok(()),
        _ => Err(SysError::last("nudge a thread", "run as the thread's user, or with CAP_KILL")),
    }
}

/// From now on SIGINT and SIGTERM only set the flag.
///
/// # Errors
/// Never in practice: the signals and the handler are constants.
pub fn install_stop_handler() -> Result<(), SysError> {
    let handler: extern "C" fn(libc::c_int) = on_stop;
    STOP.iter().try_for_each(|&signal| set_action(signal, handler as libc::sighandler_t, 0))
}

/// From now on SIGHUP only sets a flag: it asks to read the configuration again.
///
/// # Errors
/// As [`install_stop_handler`].
pub fn install_reload_handler() -> Result<(), SysError> {
    let handler: extern "C" fn(libc::c_int) = on_reload;
    set_action(libc::SIGHUP, handler as libc::sighandler_t, 0)
}

/// Whether a SIGHUP has come that [`take_reload_request`] has not seen.
pub fn reload_requested() -> bool {
    RELOADS.load(Ordering::Acquire) > 0
}

/// Whether a SIGHUP has come since the last call.
pub fn take_reload_request() -> bool {
    RELOADS.swap(0, Ordering::AcqRel) > 0
}

/// SIGINT and SIGTERM end the process again: for a second Ctrl-C while cleaning up.
///
/// # Errors
/// As [`install_stop_handler`].
pub fn restore_default() -> Result<(), SysError> {
    STOP.iter().try_for_each(|&signal| set_action(signal, libc::SIG_DFL, 0))
}

/// A write to a closed pipe or socket gives EPIPE instead of ending the process (true, what Rust
/// programs start with), or ends it (false, what a filter like `head` expects).
///
/// # Errors
/// As [`install_stop_handler`].
pub fn ignore_broken_pipes(ignore: bool) -> Result<(), SysError> {
    set_action(libc::SIGPIPE, if ignore { libc::SIG_IGN } else { libc::SIG_DFL }, 0)
}

/// The same as if a stop signal had come, for a thread that finds that it is time.
pub fn request_stop() {
    STOP_SIGNALS.fetch_add(1, Ordering::Release);
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

fn set_action(
    signal: libc::c_int,
    handler: libc::sighandler_t,
    flags: libc::c_int,
) -> Result<(), SysError> {
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask, SIG_DFL.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is valid, and the handler (if it is ours) only touches atomics, which is
    // safe wherever it interrupts.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(SysError::last(format!("set what signal {signal} does"), ""))
    }
}

/// What `signal` does now: SIG_DFL, SIG_IGN, or some handler's address.
fn action_of(signal: libc::c_int) -> Result<libc::sighandler_t, SysError> {
    // SAFETY: as in `set_action`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and `action` is ours to write.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    if result == 0 {
        Ok(action.sa_sigaction)
    } else {
        Err(SysError::last(format!("see what signal {signal} does"), ""))
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

    #[test]
    fn a_nudge_before_the_handler_is_ignored_and_after_it_is_counted() {
        let raise = || {
            // SAFETY: the signal is ignored by default, and has a handler later.
            assert_eq!(unsafe { libc::raise(NUDGE) }, 0);
        };
        raise();
        install_nudge_handler().expect("constants are valid");
        let before = nudge_count();
        raise();
        // Other tests of this process nudge too.
        assert!(nudge_count().wrapping_sub(before) >= 1);
        install_nudge_handler().expect("a second time changes nothing");
    }
}
