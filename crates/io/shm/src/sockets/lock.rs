//! A lock in shared memory whose dead holder is found out.
//!
//! One for each direction of a socket, between the threads and processes of one application; the
//! daemon never takes it. It holds the holder's thread number, so that a process killed in the
//! middle of a call keeps nobody out.

use std::sync::atomic::{AtomicU32, Ordering};

/// What became of an attempt.
#[derive(Debug)]
pub enum Locked<'a> {
    /// It is ours until this is dropped.
    Ours(SlotLock<'a>),
    /// It is ours already: a signal's handler has interrupted its own thread.
    Reentered,
}

/// A held lock.
#[derive(Debug)]
pub struct SlotLock<'a> {
    word: &'a AtomicU32,
    holder: u32,
}

/// Looks before a holder is suspected to be dead.
const LOOKS: u32 = 1000;

impl<'a> SlotLock<'a> {
    /// Takes the lock for the thread `me`, waiting while another holds it; `is_alive` says
    /// whether a thread of that number lives.
    #[inline]
    pub fn acquire(word: &'a AtomicU32, me: u32, is_alive: impl Fn(u32) -> bool) -> Locked<'a> {
        match word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Locked::Ours(Self { word, holder: me }),
            Err(holder) if holder == me => Locked::Reentered,
            Err(_) => Locked::Ours(Self::wait(word, me, is_alive)),
        }
    }

    #[cold]
    fn wait(word: &'a AtomicU32, me: u32, is_alive: impl Fn(u32) -> bool) -> Self {
        let mut looks = 0_u32;
        loop {
            let holder = word.load(Ordering::Relaxed);
            let may_take = holder == 0 || (looks % LOOKS == LOOKS - 1 && !is_alive(holder));
            if may_take
                && word.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Self { word, holder: me };
            }
            looks += 1;
            match looks {
                0..20 => std::hint::spin_loop(),
                _ => std::thread::yield_now(),
            }
        }
    }
}

impl Drop for SlotLock<'_> {
    fn drop(&mut self) {
        // Whoever took it for dead has it now.
        let _ = self.word.compare_exchange(self.holder, 0, Ordering::Release, Ordering::Relaxed);
    }
}
