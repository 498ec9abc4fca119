//! SIGSEGV and SIGBUS: our copies look at them first, the program's own handlers get all others.
//!
//! The program's wishes for these two signals are remembered here, and sigaction(2) answers from
//! here, so that it sees what it has set, whatever the kernel has.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use libc::{c_int, c_void, sigaction as SignalAction, siginfo_t, ucontext_t};

use crate::system::{copy, raw, real};

/// The signals of a bad address.
const WATCHED: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// How many settings may be made while a handler reads one.
const HISTORY: usize = 32;

/// What the program has set for one of them. Readers may be in a signal handler, so a setting is
/// never changed: the next one is written beside it.
pub(crate) struct Wish {
    settings: [std::cell::UnsafeCell<SignalAction>; HISTORY],
    next: AtomicUsize,
    current: AtomicPtr<SignalAction>,
}

// SAFETY: a cell is written by the one thread that drew its index, before `current` points to it,
// and again only after HISTORY more settings.
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

    /// The setting of now.
    pub(crate) fn get(&self) -> SignalAction {
        let current = self.current.load(Ordering::Acquire);
        let current = if current.is_null() { self.settings[0].get() } else { current };
        // SAFETY: it points to one of the settings, which are always valid.
        unsafe { *current }
    }

    /// Sets it anew.
    pub(crate) fn set(&self, action: &SignalAction) {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % HISTORY;
        let place = self.settings[index].get();
        // SAFETY: nobody else has drawn this index, and who read it before has long finished.
        unsafe { *place = *action };
        self.current.store(place, Ordering::Release);
    }
}

/// What the program has set for a signal that is one of these two.
pub(crate) fn wish_of(signal: c_int) -> Option<&'static Wish> {
    WATCHED.iter().position(|&watched| watched == signal).map(|index| &WISHES[index])
}

/// Whether our handlers stand before the program's.
pub(crate) fn is_watching() -> bool {
    IS_WATCHING.load(Ordering::Acquire)
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
