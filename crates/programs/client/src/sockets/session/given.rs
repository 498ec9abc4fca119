//! Connections that the daemon has given to the kernel, on their way to this process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use attach::{AttachError, Given};
use base::Nanos;
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit};
use sys::clock;

use super::Session;
use crate::sockets::lock::GIVEN_WITHIN;

/// How often who waits for a connection's socket looks.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

impl Session {
    /// The sockets of connections that the daemon has given to the kernel, `most` at most, which
    /// this process has not taken yet; waits for the first. None: there will be no more. Each is to
    /// take the place of the one that [`Given::cookie`] tells.
    pub fn take_given(&self, most: usize) -> Vec<Given> {
        let deadline = clock::now() + Nanos::from(GIVEN_WITHIN);
        let mut is_over = false;
        while !is_over && clock::now() < deadline {
            let taken;
            (taken, is_over) = self.given_so_far(most);
            if !taken.is_empty() {
                return taken;
            }
            // The thread that waits for an answer may get it first. Not the C library's sleep, in
            // which a thread can be cancelled.
            let _ = rustix::thread::nanosleep(&LOOK_EVERY);
        }
        Vec::new()
    }

    /// Those that are there; and whether there will be no more.
    pub fn given_so_far(&self, most: usize) -> (Vec<Given>, bool) {
        let core = &self.0;
        // What came to a forked child's parent is the parent's.
        if core.process != getpid() {
            return (Vec::new(), true);
        }
        let mut taken: Vec<Given> = {
            let mut given = lock(&core.given);
            let count = given.len().min(most);
            given.drain(..count).collect()
        };
        let Ok(_calling) = core.calling.try_lock() else { return (taken, false) };
        while taken.len() < most {
            let given = match core.link.given(Nanos::ZERO) {
                Err(error) if !taken.is_empty() && has_no_descriptor(&error) => break,
                Err(error) if has_no_descriptor(&error) => {
                    with_another_descriptor(|| core.link.given(Nanos::ZERO))
                }
                given => given,
            };
            match given {
                Ok(Some(given)) => taken.push(given),
                Ok(None) => break,
                Err(error) => return (taken, !has_no_descriptor(&error)),
            }
        }
        (taken, false)
    }

    /// Those that [`Self::take_given`] has told, and that no socket has yet.
    pub fn give_back(&self, given: Vec<Given>) {
        lock(&self.0.given).extend(given);
    }

    /// One has come to a thread that waited for something else.
    pub(super) fn keep_given(&self, given: Given) {
        lock(&self.0.given).push(given);
    }
}

/// A connection has come, and the program has as many files open as it may.
fn has_no_descriptor(error: &AttachError) -> bool {
    matches!(error, AttachError::System(error) if error.errno() == Errno::MFILE)
}

/// Runs what needs a descriptor more than the program may have, which it gives back at once: as far
/// as the program could raise its own limit.
fn with_another_descriptor<T>(run: impl FnOnce() -> T) -> T {
    let limit = getrlimit(Resource::Nofile);
    let more = limit.current.map(|current| current.saturating_add(1));
    let is_raised = more.is_some_and(|more| limit.maximum.is_none_or(|most| more <= most))
        && setrlimit(Resource::Nofile, Rlimit { current: more, ..limit }).is_ok();
    let result = run();
    if is_raised {
        let _ = setrlimit(Resource::Nofile, limit);
    }
    result
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
