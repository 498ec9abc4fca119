//! Sleep until a word changes: futex(2).

use std::sync::atomic::AtomicU32;

use base::Nanos;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

/// Which processes may wake which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only: cheaper.
    Private,
    /// The word lies in memory that several processes map.
    Shared,
}

/// How a [`wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Woken, or a signal came: look at the word again.
    Maybe,
    /// The word was not `expected` any more.
    Changed,
    /// Time is up.
    TimedOut,
}

/// Sleeps while `word` is `expected`, for at most `timeout` ([`Nanos::FAR_FUTURE`]: for ever).
pub fn wait(word: &AtomicU32, expected: u32, scope: Scope, timeout: Nanos) -> Woken {
    let timespec = (timeout != Nanos::FAR_FUTURE).then_some(Timespec {
        tv_sec: (timeout.0 / 1_000_000_000) as i64,
        tv_nsec: (timeout.0 % 1_000_000_000) as _,
    });
    match futex::wait(word, flags(scope), expected, timespec.as_ref()) {
        Err(Errno::AGAIN) => Woken::Changed,
        Err(Errno::TIMEDOUT) => Woken::TimedOut,
        // EINTR, and anything unforeseen: the caller's loop decides by the word.
        Ok(()) | Err(_) => Woken::Maybe,
    }
}

/// Wakes up to `count` sleepers of `word`; how many were woken.
pub fn wake(word: &AtomicU32, scope: Scope, count: u32) -> usize {
    // The kernel takes what is larger for a negative number, and wakes one.
    futex::wake(word, flags(scope), count.min(i32::MAX.unsigned_abs())).unwrap_or(0)
}

fn flags(scope: Scope) -> Flags {
    match scope {
        Scope::Private => Flags::PRIVATE,
        Scope::Shared => Flags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_word_that_has_changed_does_not_put_us_to_sleep() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 0, Scope::Private, Nanos::FAR_FUTURE), Woken::Changed);
        assert_eq!(wait(&word, 0, Scope::Shared, Nanos::FAR_FUTURE), Woken::Changed);
    }

    #[test]
    fn a_timeout_ends_the_sleep() {
        let word = AtomicU32::new(0);
        assert_eq!(wait(&word, 0, Scope::Private, Nanos::from_micros(50)), Woken::TimedOut);
    }

    #[test]
    fn one_call_wakes_all_sleepers_however_many_are_allowed() {
        let word = AtomicU32::new(0);
        let sleep = || {
            while word.load(Ordering::Acquire) == 0 {
                wait(&word, 0, Scope::Private, Nanos::from_secs(1));
            }
        };
        std::thread::scope(|scope| {
            let sleepers = [scope.spawn(sleep), scope.spawn(sleep), scope.spawn(sleep)];
            let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
            let mut most = 0;
            while most < 2 && std::time::Instant::now() < until {
                std::thread::yield_now();
                most = most.max(wake(&word, Scope::Private, u32::MAX));
            }
            word.store(1, Ordering::Release);
            wake(&word, Scope::Private, u32::MAX);
            for sleeper in sleepers {
                sleeper.join().expect("it woke up and ended");
            }
            assert!(most >= 2, "{most} woken at once");
        });
    }

    #[test]
    fn a_sleeper_is_woken_after_the_word_changed() {
        for scope in [Scope::Private, Scope::Shared] {
            let word = Arc::new(AtomicU32::new(0));
            let sleeper = std::thread::spawn({
                let word = Arc::clone(&word);
                move || {
                    while word.load(Ordering::Acquire) == 0 {
                        wait(&word, 0, scope, Nanos::FAR_FUTURE);
                    }
                }
            });
            word.store(1, Ordering::Release);
            wake(&word, scope, 1);
            sleeper.join().expect("it woke up and ended");
        }
    }
}
