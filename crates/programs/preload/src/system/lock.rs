//! A lock that a fork cannot leave closed, and that its own thread notices.
//!
//! Held for a few hundred nanoseconds at a time, never over a call of the kernel that waits. A fork
//! waits at the gate until no thread is inside any of them, so a child finds all of them open and
//! what they guard whole. A signal handler that comes to a lock which its own thread holds is told
//! so.

use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Threads inside, and [`FORKING`].
static GATE: AtomicU32 = AtomicU32::new(0);

/// A thread is about to fork: no other one enters.
const FORKING: u32 = 1 << 31;

thread_local! {
    /// Its address tells this thread from all others.
    static THREAD: Cell<u8> = const { Cell::new(0) };
    /// How many locks this thread has entered.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// A value that one thread at a time may use.
pub(crate) struct Lock<T> {
    /// The thread that has it; zero: none.
    owner: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by the thread that has entered itself as the owner.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to the value of a [`Lock`].
pub(crate) struct Locked<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { owner: AtomicUsize::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for the value; nothing if this thread has it already and was interrupted by a signal.
    pub(crate) fn lock(&self) -> Option<Locked<'_, T>> {
        let this = THREAD.with(|thread| std::ptr::from_ref(thread).addr());
        if self.owner.load(Ordering::Relaxed) == this {
            return None;
        }
        enter();
        while self
            .owner
            .compare_exchange_weak(0, this, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            std::thread::yield_now();
        }
        Some(Locked { lock: self })
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread is the owner.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread is the owner, and borrows this guard exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        self.lock.owner.store(0, Ordering::Release);
        leave();
    }
}

/// A handler that comes between the two counts of either function, and forks, waits neither for
/// its own thread nor for one that is gone: this thread's count is never less than its share.
fn enter() {
    INSIDE.set(INSIDE.get() + 1);
    while GATE.fetch_add(1, Ordering::Acquire) & FORKING != 0 {
        GATE.fetch_sub(1, Ordering::Release);
        std::thread::yield_now();
    }
}

/// See [`enter`].
fn leave() {
    GATE.fetch_sub(1, Ordering::Release);
    INSIDE.set(INSIDE.get() - 1);
}

/// Waits until no other thread is inside, and lets none in. The calling thread is inside if it is
/// in a signal's handler that has interrupted its call: what it has there it has in the child too.
pub(crate) fn close_gate() {
    while GATE.fetch_or(FORKING, Ordering::Acquire) & FORKING != 0 {
        std::thread::yield_now();
    }
    while GATE.load(Ordering::Acquire) & !FORKING > INSIDE.get() {
        std::thread::yield_now();
    }
}

/// Lets them in again.
pub(crate) fn open_gate() {
    GATE.fetch_and(!FORKING, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_has_it_is_told_and_others_wait() {
        static LOCK: Lock<u32> = Lock::new(0);
        let mut held = LOCK.lock().expect("nobody has it");
        assert!(LOCK.lock().is_none());
        let other = std::thread::spawn(|| *LOCK.lock().expect("another thread's") += 1);
        *held += 1;
        drop(held);
        other.join().expect("it waits and goes on");
        assert_eq!(*LOCK.lock().expect("nobody has it"), 2);
    }

    #[test]
    fn a_handler_that_forks_in_the_middle_of_its_threads_lock_waits_for_nobody() {
        static LOCK: Lock<u32> = Lock::new(0);
        let held = LOCK.lock().expect("nobody has it");
        close_gate();
        open_gate();
        drop(held);
        close_gate();
        assert_eq!((INSIDE.get(), GATE.load(Ordering::Relaxed)), (0, FORKING));
        open_gate();
    }

    #[test]
    fn nobody_is_inside_while_the_gate_is_closed() {
        static LOCK: Lock<u32> = Lock::new(0);
        close_gate();
        let other = std::thread::spawn(|| *LOCK.lock().expect("not mine") = 7);
        // SAFETY: the gate is closed: nobody else reads or writes it.
        assert_eq!(unsafe { *LOCK.value.get() }, 0);
        open_gate();
        other.join().expect("it enters once the gate is open");
        assert_eq!(*LOCK.lock().expect("nobody has it"), 7);
    }
}
