//! The one thread of a process that may change the open files of numbers.
//!
//! A fork waits until there is none, so that no child finds a number in the middle of a change, or
//! has a file that waits for its number.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::system::fork;

/// The process that has a thread here, or had one when it was made without the C library's fork.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Which thread that is.
static THREAD: AtomicUsize = AtomicUsize::new(0);

/// It is here for a fork.
static FORKS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Its address tells this thread from all others.
    static PLACE: Cell<u8> = const { Cell::new(0) };
}

/// Waits until no other thread is here, and runs as the only one. Not for a thread that is here
/// already.
pub(crate) fn alone<T>(run: impl FnOnce() -> T) -> T {
    enter();
    let result = run();
    leave();
    result
}

fn enter() {
    let this = fork::process();
    loop {
        let of = PROCESS.load(Ordering::Relaxed);
        if of != this
            && PROCESS.compare_exchange(of, this, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            break;
        }
        std::thread::yield_now();
    }
    THREAD.store(own_place(), Ordering::Relaxed);
}

fn leave() {
    THREAD.store(0, Ordering::Relaxed);
    PROCESS.store(0, Ordering::Release);
}

fn own_place() -> usize {
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// Waits until no other thread is here, and keeps all out. A signal's handler that forks in the
/// middle of its thread's change waits for nobody.
pub(crate) fn close() {
    if THREAD.load(Ordering::Relaxed) != own_place() {
        enter();
        FORKS.store(true, Ordering::Relaxed);
    }
}

/// Lets them in again: in the parent, and in the child.
pub(crate) fn open() {
    if FORKS.swap(false, Ordering::Relaxed) {
        leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_waits_for_the_thread_that_is_here_and_keeps_the_next_one_out() {
        fork::note_process();
        static INSIDE: AtomicU32 = AtomicU32::new(0);
        close();
        let other = std::thread::spawn(|| alone(|| INSIDE.fetch_add(1, Ordering::Relaxed)));
        assert_eq!(INSIDE.load(Ordering::Relaxed), 0);
        open();
        other.join().expect("it goes on once the fork is over");
        assert_eq!(INSIDE.load(Ordering::Relaxed), 1);
        alone(|| {
            close();
            open();
            assert_eq!(PROCESS.load(Ordering::Relaxed), fork::process(), "a handler's fork");
        });
        assert_eq!(PROCESS.load(Ordering::Relaxed), 0);
    }
}
