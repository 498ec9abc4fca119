//! Signals as something to read: signalfd(2).
//!
//! A loop that sleeps on descriptors sleeps on signals too, without a handler and without the
//! moment between looking at a flag and going to sleep. And it learns who sent them: what the
//! keyboard sends, it sends to all processes of the terminal's foreground, so passing that on would
//! double it.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Signal;

use crate::SysError;

/// Holds signals back from the calling thread and every thread that it starts from now on, and
/// gives them out one by one. A signal that is ignored stays ignored and never comes.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    signals: SignalMask,
    before: SignalMask,
    /// Masks belong to threads.
    not_send: PhantomData<*const ()>,
}

/// Which signals a thread holds back; a program that is started inherits it.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignalMask")
    }
}

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Which.
    pub signal: Signal,
    /// Whether a process sent it to us, by kill(2); false: the kernel did, for a key or a closed
    /// terminal.
    pub by_process: bool,
}

impl SignalFd {
    /// For these signals.
    ///
    /// # Errors
    /// Too many descriptors are open, or the C library keeps one of the signals to itself.
    pub fn new(signals: &[Signal]) -> Result<Self, SysError> {
        let failed = |doing: &'static str| SysError::last(doing, "");
        // SAFETY: all-zero bytes are a valid `sigset_t`.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        for &signal in signals {
            // SAFETY: `set` is valid; the C library refuses what it keeps to itself.
            if unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) } != 0 {
                return Err(failed("wait for signals"));
            }
        }
        // SAFETY: `set` is valid for the call; -1 asks for a new descriptor.
        let raw =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if raw < 0 {
            return Err(failed("wait for signals"));
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows of it.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let mut before = SignalMask(set);
        // SAFETY: both sets are valid and ours; the C library keeps its own signals out.
        let blocked =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before.0) };
        if blocked != 0 {
            return Err(failed("hold signals back"));
        }
        Ok(Self { fd, signals: SignalMask(set), before, not_send: PhantomData })
    }

    /// The next one that has come, if any; never waits.
    pub fn take(&self) -> Option<Received> {
        // SAFETY: all-zero bytes are a valid `signalfd_siginfo`.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of_val(&info);
        // SAFETY: `info` is `size` bytes that any bytes may be written to.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) };
        if read.cast_unsigned() != size {
            return None;
        }
        // SI_USER is 0, SI_QUEUE and SI_TKILL are below; what the kernel sends is above.
        let signal = Signal::from_named_raw(info.ssi_signo.cast_signed())?;
        Some(Received { signal, by_process: info.ssi_code <= 0 })
    }

    /// For programs that this thread starts ([`crate::child::Start`]): what it held back before,
    /// but none of these signals.
    pub fn mask_without(&self) -> SignalMask {
        let mut mask = self.before;
        for signal in 1..=SIGNAL_MAX {
            // SAFETY: the set is valid, and so is the number.
            if unsafe { libc::sigismember(&raw const self.signals.0, signal) } == 1 {
                // SAFETY: as above.
                unsafe { libc::sigdelset(&raw mut mask.0, signal) };
            }
        }
        mask
    }
}

/// Linux has signals 1 to 64.
const SIGNAL_MAX: i32 = 64;

impl SignalMask {
    /// Makes it the calling thread's. Safe between fork and exec.
    pub(crate) fn apply(&self) -> bool {
        // SAFETY: the set is valid; nobody asks for the old one.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) == 0
        }
    }
}

impl AsFd for SignalFd {
    /// Readable once a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SignalFd {
    /// The thread gets its signals again, those too that nobody has taken.
    fn drop(&mut self) {
        self.before.apply();
    }
}

#[cfg(test)]
mod tests {
    use base::Nanos;

    use super::*;
    use crate::poll;

    #[test]
    fn a_signal_is_read_and_does_nothing_else() {
        // A mask belongs to one thread, and so does a signal that is raised.
        std::thread::spawn(|| {
            let signals = SignalFd::new(&[Signal::HUP, Signal::USR1]).expect("they are signals");
            assert_eq!(signals.take(), None);
            for signal in [Signal::USR1, Signal::HUP] {
                // SAFETY: the signal is held back, so that this only marks it as come.
                assert_eq!(unsafe { libc::raise(signal.as_raw()) }, 0);
                assert!(poll::wait_readable(signals.as_fd(), Nanos::from_secs(10)));
                assert_eq!(signals.take(), Some(Received { signal, by_process: true }));
            }
            assert_eq!(signals.take(), None);
        })
        .join()
        .expect("no assertion failed");
    }
}
