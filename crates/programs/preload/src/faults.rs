//! SIGSEGV and SIGBUS: our copies look at them first, the program's own handlers get all others.
//!
//! The program's wishes for these two signals are remembered here and answered from here, so that it
//! sees what it has set, whatever the kernel has.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, c_void, sigaction as SignalAction, sighandler_t, siginfo_t, ucontext_t};
use rustix::io::Errno;

use crate::real;
use crate::{copy, outcome, raw};

/// The signals of a bad address.
const WATCHED: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// So many settings may be made while a handler reads one.
const HISTORY: usize = 32;

/// What the program has set for one of them. Readers may be in a signal handler, so a setting is never
/// changed: the next one is written beside it.
struct Wish {
    settings: [std::cell::UnsafeCell<SignalAction>; HISTORY],
    next: AtomicUsize,
    current: AtomicPtr<SignalAction>,
}

// SAFETY: a cell is written by the one thread that drew its index, before `current` points to it, and
// again only after HISTORY more settings.
unsafe impl Sync for Wish {}

static WISHES: [Wish; 2] = [const { Wish::new() }; 2];

/// Set once ours stand before the program's.
static IS_WATCHING: AtomicBool = AtomicBool::new(false);

impl Wish {
    const fn new() -> Self {
        Self {
            // SAFETY: all zero is SIG_DFL without flags.
            settings: [const { std::cell::UnsafeCell::new(unsafe { std::mem::zeroed() }) };
                HISTORY],
            next: AtomicUsize::new(0),
            current: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn get(&self) -> SignalAction {
        let current = self.current.load(Ordering::Acquire);
        let current = if current.is_null() { self.settings[0].get() } else { current };
        // SAFETY: it points to one of the settings, which are always valid.
        unsafe { *current }
    }

    fn set(&self, action: &SignalAction) {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % HISTORY;
        let place = self.settings[index].get();
        // SAFETY: nobody else has drawn this index, and who read it before has long finished.
        unsafe { *place = *action };
        self.current.store(place, Ordering::Release);
    }
}

fn wish_of(signal: c_int) -> Option<&'static Wish> {
    WATCHED.iter().position(|&watched| watched == signal).map(|index| &WISHES[index])
}

/// Puts our handlers before the program's; again does nothing.
pub(crate) fn watch() {
    if IS_WATCHING.load(Ordering::Relaxed) || IS_WATCHING.swap(true, Ordering::AcqRel) {
        return;
    }
    for signal in WATCHED {
        let Some(wish) = wish_of(signal) else { continue };
        // SAFETY: all zero is a valid value to begin with.
        let (mut ours, mut theirs) = unsafe { std::mem::zeroed::<(SignalAction, SignalAction)>() };
        ours.sa_sigaction = on_fault as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both are ours; first their setting is kept, so that a fault in between finds it.
        unsafe {
            real::sigaction(signal, std::ptr::null(), &raw mut theirs);
            wish.set(&theirs);
            real::sigaction(signal, &raw const ours, std::ptr::null_mut());
        }
    }
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a context of its own.
    let counter = unsafe { program_counter(context.cast()) };
    // SAFETY: likewise; the place of the counter in it.
    if let Some(next) = copy::after_fault(unsafe { *counter } as usize) {
        // SAFETY: likewise. The thread goes on there when this handler returns.
        unsafe { *counter = next as _ };
        return;
    }
    // SAFETY: what the kernel gave us.
    unsafe { hand_on(signal, info, context) };
}

/// Does what the kernel would have done without us.
unsafe fn hand_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(wish) = wish_of(signal) else { return };
    let action = wish.get();
    // SAFETY: the kernel's own.
    let is_fault = unsafe { (*info).si_code } > 0;
    if action.sa_sigaction == libc::SIG_IGN && !is_fault {
        return;
    }
    if action.sa_sigaction == libc::SIG_DFL || action.sa_sigaction == libc::SIG_IGN {
        // A fault comes again when this returns; a signal that somebody sent is sent again.
        // SAFETY: all zero is SIG_DFL.
        unsafe {
            let default = std::mem::zeroed::<SignalAction>();
            real::sigaction(signal, &raw const default, std::ptr::null_mut());
        }
        if !is_fault {
            raw::raise_here(signal);
        }
        return;
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        // SAFETY: all zero is SIG_DFL.
        wish.set(&unsafe { std::mem::zeroed() });
    }
    // What is blocked here is unblocked by the return from the handler, which restores the mask of
    // the interrupted code.
    // SAFETY: sets of signals of our own.
    unsafe {
        let mut mask = action.sa_mask;
        if action.sa_flags & libc::SA_NODEFER != 0 {
            let mut this = std::mem::zeroed();
            libc::sigemptyset(&raw mut this);
            libc::sigaddset(&raw mut this, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const this, std::ptr::null_mut());
            libc::sigdelset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, std::ptr::null_mut());
    }
    type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
    // SAFETY: the program has set a function that takes these, or fewer, which on these machines is
    // called the same way.
    let handler = unsafe { std::mem::transmute::<usize, Handler>(action.sa_sigaction) };
    // SAFETY: it is called as the kernel would.
    unsafe { handler(signal, info, context) };
}

#[cfg(target_arch = "x86_64")]
unsafe fn program_counter(context: *mut ucontext_t) -> *mut i64 {
    // SAFETY: the caller's promise.
    unsafe { &raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] }
}

#[cfg(target_arch = "aarch64")]
unsafe fn program_counter(context: *mut ucontext_t) -> *mut u64 {
    // SAFETY: the caller's promise.
    unsafe { &raw mut (*context).uc_mcontext.pc }
}

/// sigaction(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn sigaction(
    signal: c_int,
    new: *const SignalAction,
    old: *mut SignalAction,
) -> c_int {
    let wish = wish_of(signal).filter(|_| IS_WATCHING.load(Ordering::Acquire));
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

/// Signals whose handlers end the call that they interrupt, a bit each.
static ENDING: AtomicU64 = AtomicU64::new(0);

/// Whether a call that a handler has interrupted is to end with EINTR: not if every handler that the program has
/// set lets calls go on.
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
fn note_set(signal: c_int) {
    // SAFETY: all zero is a valid value.
    let mut set = unsafe { std::mem::zeroed::<SignalAction>() };
    // SAFETY: `set` is ours.
    if unsafe { real::sigaction(signal, std::ptr::null(), &raw mut set) } == 0 {
        note_handler(signal, set.sa_sigaction, set.sa_flags);
    }
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
    if wish_of(signal).is_none() {
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
    if wish_of(signal).is_none() {
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
