//! Which signals end the calls that their handlers interrupt.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, sigaction as SignalAction, sighandler_t, sigset_t};

use crate::system::real;

/// Signals whose handlers end the call that they interrupt, a bit each.
static ENDING: AtomicU64 = AtomicU64::new(0);

/// Signals after whose handlers (SA_RESTART) it goes on.
static GOING_ON: AtomicU64 = AtomicU64::new(0);

/// Whether a call that a handler has interrupted is to end with EINTR: not if every handler that
/// the program has set lets calls go on.
pub(crate) fn ends_calls() -> bool {
    ENDING.load(Ordering::Relaxed) != 0
}

/// Whether that depends on the signal.
pub(crate) fn depends() -> bool {
    ends_calls() && GOING_ON.load(Ordering::Relaxed) != 0
}

/// Signals whose handlers let calls go on, while others end them.
pub(crate) struct GoingOn {
    /// Readable while one of them waits to be delivered.
    pub(crate) fd: c_int,
    /// The thread's mask, and they: a sleep with it is interrupted by others alone.
    pub(crate) mask: sigset_t,
}

impl GoingOn {
    /// Nothing if it does not depend on the signal, or there is no descriptor for it.
    pub(crate) fn watched() -> Option<Self> {
        if !depends() {
            return None;
        }
        let bits = GOING_ON.load(Ordering::Relaxed);
        // SAFETY: all zero is a set, and both are ours.
        unsafe {
            let mut signals = std::mem::zeroed::<sigset_t>();
            let mut mask = std::mem::zeroed::<sigset_t>();
            libc::sigemptyset(&raw mut signals);
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
            for signal in (1..=64).filter(|signal| bits >> (signal - 1) & 1 != 0) {
                // What the program has blocked itself is not to wake its thread.
                if libc::sigismember(&raw const mask, signal) == 0 {
                    libc::sigaddset(&raw mut signals, signal);
                    libc::sigaddset(&raw mut mask, signal);
                }
            }
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            let fd = libc::signalfd(-1, &raw const signals, flags);
            (fd >= 0).then_some(Self { fd, mask })
        }
    }
}

impl Drop for GoingOn {
    fn drop(&mut self) {
        // SAFETY: it was made here.
        unsafe { real::close(self.fd) };
    }
}

fn note_handler(signal: c_int, handler: sighandler_t, flags: c_int) {
    let Some(bit) = u32::try_from(signal - 1).ok().and_then(|bit| 1_u64.checked_shl(bit)) else {
        return;
    };
    let is_handler = handler != libc::SIG_DFL && handler != libc::SIG_IGN;
    let goes_on = flags & libc::SA_RESTART != 0;
    for (place, is_its) in [(&ENDING, is_handler && !goes_on), (&GOING_ON, is_handler && goes_on)] {
        if is_its {
            place.fetch_or(bit, Ordering::Relaxed);
        } else {
            place.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// Notes what libc has set for a signal on the program's behalf.
pub(crate) fn note_set(signal: c_int) {
    // SAFETY: all zero is a valid value.
    let mut set = unsafe { std::mem::zeroed::<SignalAction>() };
    // SAFETY: `set` is ours.
    if unsafe { real::sigaction(signal, std::ptr::null(), &raw mut set) } == 0 {
        note_handler(signal, set.sa_sigaction, set.sa_flags);
    }
}
