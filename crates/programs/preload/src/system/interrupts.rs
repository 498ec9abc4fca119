//! Which signals end the calls that their handlers interrupt.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, sigaction as SignalAction, sighandler_t};

use crate::system::real;

/// Signals whose handlers end the call that they interrupt, a bit each.
static ENDING: AtomicU64 = AtomicU64::new(0);

/// Whether a call that a handler has interrupted is to end with EINTR: not if every handler that
/// the program has set lets calls go on.
pub(crate) fn ends_calls() -> bool {
    ENDING.load(Ordering::Relaxed) != 0
}

fn note_handler(signal: c_int, handler: sighandler_t, flags: c_int) {
    let Some(bit) = u32::try_from(signal - 1).ok().and_then(|bit| 1_u64.checked_shl(bit)) else {
        return;
    };
    let is_handler = handler != libc::SIG_DFL && handler != libc::SIG_IGN;
    if is_handler && flags & libc::SA_RESTART == 0 {
        ENDING.fetch_or(bit, Ordering::Relaxed);
    } else {
        ENDING.fetch_and(!bit, Ordering::Relaxed);
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
