//! A lock in memory that several processes share: whoever copies bytes into or out of a ring holds it.
//!
//! Its word is the kernel's number of the thread that holds it, so that the others can see when the
//! holder has died and take it over; what it guards is good at any instant. The daemon never takes it.
//! Threads of one application are in one PID namespace, or they would not find each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use base::Nanos;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use sys::futex::{self, Scope};
use sys::{clock, thread};

/// Somebody sleeps until the lock is free; the rest of the word is a thread's number, which Linux
/// keeps below 2^22.
const WAITED: u32 = 1 << 31;

/// A holder copies for microseconds: so often it is looked at before anybody sleeps.
const LOOKS: u32 = 16;

/// After so long the holder may be dead.
const DOUBT: Nanos = Nanos::from_millis(10);

/// Who lives and holds it for so long is stopped or starved: give up rather than stop with it.
const PATIENCE: Nanos = Nanos::from_millis(200);

/// A held lock; free again when this drops.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    word: &'a AtomicU32,
}

/// Takes the lock, and waits for it if another thread has it.
///
/// # Errors
/// EAGAIN: this thread has it already (a signal handler has interrupted its call), or the holder is
/// stopped.
pub(crate) fn hold(word: &AtomicU32) -> Result<Held<'_>, Errno> {
    let own = own_number();
    match word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Ok(Held { word }),
        Err(found) => hold_slow(word, own, found),
    }
}

#[cold]
fn hold_slow(word: &AtomicU32, own: u32, mut found: u32) -> Result<Held<'_>, Errno> {
    let mut looks = 0;
    let mut since = None;
    loop {
        if found & !WAITED == own {
            return Err(Errno::AGAIN);
        }
        if found & !WAITED == 0 {
            // Others may sleep still: whoever has waited says so for them.
            let mine = own | if looks > LOOKS { WAITED } else { 0 };
            match word.compare_exchange(found, mine, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Held { word }),
                Err(other) => found = other,
            }
            continue;
        }
        looks += 1;
        if looks <= LOOKS {
            thread::sched_yield();
        } else {
            let now = clock::now();
            let waited = now.since(*since.get_or_insert(now));
            if waited >= PATIENCE {
                return Err(Errno::AGAIN);
            }
            if waited >= DOUBT && is_dead(found & !WAITED) {
                let taken = word.compare_exchange(
                    found,
                    own | WAITED,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    return Ok(Held { word });
                }
            } else if found & WAITED != 0
                || word
                    .compare_exchange(found, found | WAITED, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                futex::wait(word, found | WAITED, Scope::Shared, DOUBT);
            }
        }
        found = word.load(Ordering::Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.word.swap(0, Ordering::Release) & WAITED != 0 {
            futex::wake(self.word, Scope::Shared, 1);
        }
    }
}

/// Counts the forks of this process that sessions were told of: the numbers of threads that were
/// remembered before are not those of the child.
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// This thread's number and the count of forks at which it was asked for.
    static OWN: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// In the child of a fork, before it uses a lock.
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

fn own_number() -> u32 {
    let forks = FORKS.load(Ordering::Relaxed);
    // A thread that is ending has no such memory any more.
    let known = OWN.try_with(Cell::get).unwrap_or_default();
    if known.0 != 0 && known.1 == forks {
        return known.0;
    }
    let own = thread::tid();
    let _ = OWN.try_with(|cell| cell.set((own, forks)));
    own
}

/// Whether no thread of that number runs any more. Allocates nothing.
fn is_dead(number: u32) -> bool {
    let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) else { return true };
    match rustix::process::test_kill_process(pid) {
        Err(Errno::SRCH) => true,
        // A process whose parent has not asked after it yet answers to signals.
        _ => matches!(state(number), Some(b'Z' | b'X')),
    }
}

/// The letter after the name in /proc/NUMBER/stat, proc_pid_stat(5).
fn state(number: u32) -> Option<u8> {
    use std::io::Write;
    let mut path = [0; 32];
    // The rest stays zero, and so ends the path.
    write!(&mut path[..31], "/proc/{number}/stat").ok()?;
    let path = std::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let mut text = [0; 128];
    let count = rustix::io::read(&file, &mut text).ok()?;
    let text = &text[..count];
    let name_ends = text.iter().rposition(|&byte| byte == b')')?;
    text.get(name_ends + 2).copied()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it() {
        let word = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let count = || {
            let word = Arc::clone(&word);
            std::thread::spawn(move || {
                for _ in 0..2_000 {
                    let _held = hold(&word.0).expect("nobody is stopped");
                    let before = word.1.load(Ordering::Relaxed);
                    if before % 100 == 0 {
                        thread::sched_yield();
                    }
                    word.1.store(before + 1, Ordering::Relaxed);
                }
            })
        };
        let threads = [count(), count(), count()];
        for thread in threads {
            thread.join().expect("it counts to its end");
        }
        assert_eq!(word.1.load(Ordering::Relaxed), 6_000);
        assert_eq!(word.0.load(Ordering::Relaxed) & !WAITED, 0);
    }

    #[test]
    fn a_second_call_of_the_same_thread_is_turned_away_and_does_not_hang() {
        let word = AtomicU32::new(0);
        let held = hold(&word).expect("it is free");
        assert_eq!(hold(&word).expect_err("it is held here"), Errno::AGAIN);
        drop(held);
        assert!(hold(&word).is_ok());
    }

    #[test]
    fn who_sleeps_is_woken_when_it_is_free() {
        let word = Arc::new(AtomicU32::new(0));
        let held = hold(&word).expect("it is free");
        let waiter = std::thread::spawn({
            let word = Arc::clone(&word);
            move || hold(&word).map(drop)
        });
        while word.load(Ordering::Relaxed) & WAITED == 0 {
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(waiter.join().expect("it does not panic"), Ok(()));
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_over_even_before_its_parent_has_asked() {
        let mut child = Command::new("true").spawn().expect("there is true");
        let number = child.id();
        while state(number) != Some(b'Z') {
            std::thread::yield_now();
        }
        let word = AtomicU32::new(number);
        assert!(hold(&word).is_ok());
        child.wait().expect("it is ours");
        let word = AtomicU32::new(number | WAITED);
        assert!(hold(&word).is_ok());
    }

    #[test]
    fn a_stopped_holder_does_not_stop_the_others() {
        // Somebody who lives and does not let go.
        let word = AtomicU32::new(std::process::id());
        let other = std::thread::scope(|scope| {
            scope.spawn(|| hold(&word).map(drop)).join().expect("it does not panic")
        });
        assert_eq!(other, Err(Errno::AGAIN));
    }

    #[test]
    fn a_forgotten_number_is_asked_for_again() {
        assert_eq!(own_number(), thread::tid());
        note_fork();
        assert_eq!(own_number(), thread::tid());
    }
}
