//! sigaction(2), signal(2), sigset(3) and siginterrupt(3).

use libc::{c_int, sigaction as SignalAction, sighandler_t};
use rustix::io::Errno;

use crate::system::{copy, faults, fork, interrupts, outcome, real};

/// sigaction(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sigaction(
    signal: c_int,
    new: *const SignalAction,
    old: *mut SignalAction,
) -> c_int {
    let wish = faults::wish_of(signal).filter(|_| faults::is_watching());
    let Some(wish) = wish else {
        // SAFETY: the caller's arguments.
        let result = unsafe { real::sigaction(signal, new, old) };
        if result == 0 && !new.is_null() {
            note_set(signal);
        }
        return result;
    };
    let change = || -> Result<(), Errno> {
        // SAFETY: every pattern of bits is such a setting.
        let new = (!new.is_null()).then(|| unsafe { copy::get(new) }).transpose()?;
        if let Some(new) = new.filter(|_| fork::shares_memory()) {
            if !old.is_null() {
                // SAFETY: the program wants it there.
                unsafe { copy::put(old, &wish.get())? };
            }
            // A child of vfork has handlers of its own, and remembers in its parent's memory: the
            // kernel alone keeps what it sets.
            // SAFETY: it is ours.
            return outcome::of(unsafe {
                real::sigaction(signal, &raw const new, std::ptr::null_mut())
            })
            .map(drop);
        }
        if !old.is_null() {
            // SAFETY: the program wants it there.
            unsafe { copy::put(old, &wish.get())? };
        }
        if let Some(new) = new {
            wish.set(&new);
        }
        Ok(())
    };
    outcome::done(change())
}

/// The kernel has taken what the program has set.
fn note_set(signal: c_int) {
    if !fork::shares_memory() {
        interrupts::note_set(signal);
    }
}

/// The kernel was told by the number of its call.
pub(crate) fn set_by_number(signal: c_int) {
    if faults::wish_of(signal).is_none() {
        note_set(signal);
    }
}

/// sigset(3): the handler stays, and ends the calls that it interrupts.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the caller's arguments.
    let old = unsafe { real::sigset(signal, handler) };
    set_by_number(signal);
    old
}

/// siginterrupt(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn siginterrupt(signal: c_int, ends_calls: c_int) -> c_int {
    // SAFETY: plain numbers.
    let result = unsafe { real::siginterrupt(signal, ends_calls) };
    note_set(signal);
    result
}

/// signal(2): the handler stays, and calls go on after it.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if faults::wish_of(signal).is_none() {
        // SAFETY: the caller's arguments.
        let old = unsafe { real::signal(signal, handler) };
        note_set(signal);
        return old;
    }
    set(signal, handler, libc::SA_RESTART)
}

/// signal(2) as System V has it: the handler is taken away before it is called.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if faults::wish_of(signal).is_none() {
        // SAFETY: the caller's arguments.
        let old = unsafe { real::sysv_signal(signal, handler) };
        note_set(signal);
        return old;
    }
    set(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

fn set(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: all zero is a valid value to begin with.
    let (mut new, mut old) = unsafe { std::mem::zeroed::<(SignalAction, SignalAction)>() };
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    // SAFETY: both are ours.
    if unsafe { sigaction(signal, &raw const new, &raw mut old) } < 0 {
        return libc::SIG_ERR;
    }
    old.sa_sigaction
}
