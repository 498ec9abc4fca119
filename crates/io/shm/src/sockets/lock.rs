//! A lock in shared memory whose dead holder is found out.
//!
//! One for each direction of a socket, between the threads and processes of one application. It
//! holds the holder's thread number, so that a process killed in the middle of a call keeps nobody
//! out. The daemon never waits for it, and takes it once only: when it gives the connection to the
//! kernel ([`seize`]), so that nobody is in the middle of a copy then, and nobody begins one.

use crate::sync::{AtomicU32, Ordering};

/// What became of an attempt.
#[derive(Debug)]
pub enum Locked<'a> {
    /// It is ours until this is dropped.
    Ours(SlotLock<'a>),
    /// It is ours already: a signal's handler has interrupted its own thread.
    Reentered,
    /// Nobody who copies bytes has it: its word was written by somebody else.
    Invented,
}

/// What the number in a lock's word stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A thread that lives, and will let go.
    Lives,
    /// A thread that is gone, or never was.
    IsDead,
    /// One that has had it for longer than any copy takes, or that never gives it back.
    IsInvented,
}

/// Stands in a lock's word for the daemon, which gives the connection to the kernel or has given it
/// away. No thread has such a number.
pub const SEIZED: u32 = u32::MAX;

/// Takes the lock for good, unless somebody holds it at this moment; whether it is taken.
pub fn seize(word: &AtomicU32) -> bool {
    // With the lock comes what was written under it.
    word.compare_exchange(0, SEIZED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Gives it back after all.
pub fn release(word: &AtomicU32) {
    let _ = word.compare_exchange(SEIZED, 0, Ordering::Release, Ordering::Relaxed);
}

/// A held lock.
#[derive(Debug)]
pub struct SlotLock<'a> {
    word: &'a AtomicU32,
    holder: u32,
}

/// Looks before a holder is suspected to be dead.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 1000 };

impl<'a> SlotLock<'a> {
    /// Takes the lock for the thread `me`, waiting while another holds it; `ask` says what is
    /// behind the number of the holder, and is asked now and then while it waits.
    #[inline]
    pub fn acquire(word: &'a AtomicU32, me: u32, ask: impl FnMut(u32) -> Holder) -> Locked<'a> {
        match word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Locked::Ours(Self { word, holder: me }),
            Err(holder) if holder == me => Locked::Reentered,
            Err(_) => Self::wait(word, me, ask).map_or(Locked::Invented, Locked::Ours),
        }
    }

    #[cold]
    fn wait(word: &'a AtomicU32, me: u32, mut ask: impl FnMut(u32) -> Holder) -> Option<Self> {
        let mut looks = 0_u32;
        loop {
            let holder = word.load(Ordering::Relaxed);
            let mut may_take = holder == 0;
            if !may_take && looks % LOOKS == LOOKS - 1 {
                match ask(holder) {
                    Holder::Lives => {}
                    Holder::IsDead => may_take = true,
                    Holder::IsInvented => return None,
                }
            }
            if may_take
                && word.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Some(Self { word, holder: me });
            }
            looks = looks.wrapping_add(1);
            pause(looks);
        }
    }
}

#[cfg(not(loom))]
fn pause(looks: u32) {
    match looks {
        0..20 => std::hint::spin_loop(),
        _ => std::thread::yield_now(),
    }
}

#[cfg(loom)]
fn pause(_: u32) {
    loom::thread::yield_now();
}

impl Drop for SlotLock<'_> {
    fn drop(&mut self) {
        // Whoever took it for dead has it now.
        let _ = self.word.compare_exchange(self.holder, 0, Ordering::Release, Ordering::Relaxed);
    }
}
