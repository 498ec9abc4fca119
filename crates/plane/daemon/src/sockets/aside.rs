//! Threads that ask, change and close descriptors which programs have passed. Nobody waits long for
//! any of them.
//!
//! Nearly every question about a socket takes the socket's lock, and to close the last copy of a
//! descriptor takes the lock of every epoll set that it is in. Its program has these locks for as
//! long as it likes: send(2) and epoll_wait(2) copy while they have them, and what they copy from
//! or to may be memory whose pages never come (of a file system of the program's own, or of
//! userfaultfd(2)). Who waits for such a lock cannot be interrupted, not even by SIGKILL. So a
//! thread does it that nothing else hangs on; when it is late it is left behind, with all that it
//! has, until it comes back. A user has [`THREADS_OF_USER_MAX`] of these.
//!
//! Nor need it be a lock: to close a file of 256 MiB in memory takes a processor 50 ms, and a
//! socket in 20,000 epoll sets some milliseconds. So what the thread runs counts as well. What does
//! not count is that the thread gets no processor, which is others' doing.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::Nanos;
use rustix::io::Errno;
use sys::{SysError, clock};

use super::shares::Shares;
use crate::confinement::Role;
use crate::thread_pool::{PoolConfig, ThreadPool};

/// A descriptor that a program has passed. Whoever is asked about it has it, too, so that it is
/// closed by the last of them; the attach server and the guardian are never that.
pub(crate) type Passed = Arc<OwnedFd>;

/// Threads at once, at most: each may be with a descriptor whose program keeps it there.
const THREADS_MAX: usize = 512;

/// … with descriptors of one user. More of them can only be in the way.
const THREADS_OF_USER_MAX: usize = 16;

/// Threads that are kept although they have nothing to do.
const IDLE_MAX: usize = 8;

/// Time between two looks whether a thread that has not answered is kept, or has no processor.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// A thread that nobody keeps, but that gets no processor, is waited for this long.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// The threads; clones are the same.
#[derive(Clone)]
pub(crate) struct Aside {
    threads: Arc<ThreadPool>,
    at_work: Arc<Mutex<Shares>>,
}

impl Aside {
    /// Starts the first thread.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn start() -> Result<Self, SysError> {
        let threads = ThreadPool::new(PoolConfig {
            name: "aside",
            role: Role::Aside,
            threads_max: THREADS_MAX,
            idle_max: IDLE_MAX,
        });
        threads.run(|| ()).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
            SysError::new("start the thread that asks about descriptors", errno, "")
        })?;
        let at_work = Arc::new(Mutex::new(Shares::new(THREADS_MAX)));
        Ok(Self { threads: Arc::new(threads), at_work })
    }

    /// Has a thread do `work` for a user, and waits for it: what it gives back, and how long it was
    /// kept or ran. None: that was as long as is said, or that user has too many threads already;
    /// what it gives back later is dropped by its thread. What `work` has of a [`Passed`] must not
    /// be the last.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        user: u32,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (Option<T>, Duration) {
        let errand = Arc::new(Errand::default());
        let theirs = Arc::clone(&errand);
        let begun = self.run(user, move || {
            if theirs.is_awaited() {
                theirs.deliver(work());
            }
        });
        begun.map_or((None, Duration::ZERO), |has_thread| errand.wait(has_thread, within))
    }

    /// The same, without waiting. False: that user has too many threads already.
    pub(crate) fn begin(&self, user: u32, work: impl FnOnce() + Send + 'static) -> bool {
        self.run(user, work).is_some()
    }

    /// Whether a thread is there for it, or it waits for those that may be kept.
    fn run(&self, user: u32, work: impl FnOnce() + Send + 'static) -> Option<bool> {
        let place = self.enter(user)?;
        let job = move || {
            let _place = place;
            work();
        };
        self.threads.run(job).ok()
    }

    fn enter(&self, user: u32) -> Option<Place> {
        let mut at_work = locked(&self.at_work);
        let may = at_work.of(user) < THREADS_OF_USER_MAX && at_work.has_room(user, 1);
        may.then(|| {
            at_work.take(user, 1);
            Place { user, at_work: Arc::clone(&self.at_work) }
        })
    }
}

/// A thread of a user's that is at work.
struct Place {
    user: u32,
    at_work: Arc<Mutex<Shares>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.at_work).give_back(self.user, 1);
    }
}

/// What goes from a thread to whoever waits for it.
struct Errand<T> {
    state: Mutex<State<T>>,
    news: Condvar,
    /// The thread's number; zero: none has begun.
    thread: AtomicI32,
    /// What it had run before, in nanoseconds.
    had_run: AtomicU64,
}

enum State<T> {
    Awaited,
    Done(T),
    /// Nobody waits any more.
    Left,
}

impl<T> Default for Errand<T> {
    fn default() -> Self {
        let state = Mutex::new(State::Awaited);
        let (thread, had_run) = (AtomicI32::new(0), AtomicU64::new(0));
        Self { state, news: Condvar::new(), thread, had_run }
    }
}

impl<T> Errand<T> {
    /// The calling thread begins with it; whether anybody waits.
    fn is_awaited(&self) -> bool {
        self.had_run.store(clock::of_thread().0, Ordering::Relaxed);
        self.thread.store(rustix::thread::gettid().as_raw_pid(), Ordering::Release);
        matches!(*locked(&self.state), State::Awaited)
    }

    /// What nobody waits for is dropped here: to close it may take long.
    fn deliver(&self, done: T) {
        let mut state = locked(&self.state);
        if let State::Left = *state {
            drop(state);
            return drop(done);
        }
        *state = State::Done(done);
        self.news.notify_one();
    }

    fn wait(&self, has_thread: bool, within: Duration) -> (Option<T>, Duration) {
        let begun = Instant::now();
        let (mut kept, mut ran) = (Duration::ZERO, Duration::ZERO);
        let mut state = locked(&self.state);
        loop {
            if let State::Done(done) = std::mem::replace(&mut *state, State::Left) {
                return (Some(done), kept + ran);
            }
            if kept + ran >= within || begun.elapsed() >= ANSWERED_WITHIN {
                return (None, kept + ran);
            }
            *state = State::Awaited;
            let slept = Instant::now();
            let waited = self.news.wait_timeout(state, LOOK_EVERY);
            let (awaited, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = awaited;
            if timeout.timed_out() {
                drop(state);
                ran = self.has_run();
                if self.is_kept(has_thread) {
                    // Who looks may have had no processor either.
                    kept += slept.elapsed().min(5 * LOOK_EVERY);
                }
                state = locked(&self.state);
            }
        }
    }

    /// What its thread has run for it.
    fn has_run(&self) -> Duration {
        let ran = match self.thread.load(Ordering::Acquire) {
            0 => None,
            thread => clock::of_other_thread(thread),
        };
        let had_run = Nanos(self.had_run.load(Ordering::Relaxed));
        Duration::from_nanos(ran.map_or(0, |ran| ran.since(had_run).0))
    }

    /// Whether its thread waits for something, and not for a processor. One that is not there yet
    /// is as kept as all others.
    fn is_kept(&self, has_thread: bool) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        let stat = || std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        // proc_pid_stat(5): the state follows the name, which stands in brackets.
        let is_waiting = || {
            stat().is_ok_and(|text| {
                text.rsplit_once(") ").is_none_or(|(_, rest)| !rest.starts_with('R'))
            })
        };
        if thread == 0 { !has_thread } else { is_waiting() }
    }
}

/// A thread that has panicked has left nothing half-done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::shares::ROOT;
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn whoever_is_late_keeps_its_thread_and_nobody_else_and_drops_what_it_brings() {
        let aside = Aside::start().expect("threads are left");
        assert_eq!(aside.ask(7, LONG, || 5).0, Some(5));
        let (hold, held) = channel::<()>();
        let (dropped, heard) = channel();
        struct Late(std::sync::mpsc::Sender<String>);
        impl Drop for Late {
            fn drop(&mut self) {
                let _ = self.0.send(std::thread::current().name().unwrap_or_default().to_owned());
            }
        }
        let (late, kept) = aside.ask(7, SHORT, move || {
            let _ = held.recv();
            Late(dropped)
        });
        assert!(late.is_none() && kept >= SHORT);
        let others = [7, 8].map(|user| aside.ask(user, LONG, move || user).0);
        assert_eq!(others, [Some(7), Some(8)]);
        drop(hold);
        assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("aside"));
    }

    #[test]
    fn a_user_with_too_many_that_are_late_is_not_asked_for_until_one_comes_back() {
        let aside = Aside::start().expect("threads are left");
        let hold = |user| {
            let (hold, held) = channel::<()>();
            aside.begin(user, move || _ = held.recv()).then_some(hold)
        };
        let mut held: Vec<_> = std::iter::from_fn(|| hold(7)).collect();
        assert_eq!(held.len(), THREADS_OF_USER_MAX);
        assert_eq!(aside.ask(7, LONG, || ()), (None, Duration::ZERO));
        assert_eq!([8, ROOT].map(|user| aside.ask(user, LONG, || ()).0), [Some(()); 2]);
        held.pop();
        let begun = Instant::now();
        while aside.ask(7, LONG, || ()).0.is_none() {
            assert!(begun.elapsed() < LONG, "it has come back");
        }
    }

    #[test]
    fn what_a_thread_runs_counts_and_one_that_runs_for_long_is_left_to_itself() {
        let aside = Aside::start().expect("threads are left");
        let compute = |most: Nanos| {
            let had = clock::of_thread();
            while clock::of_thread().since(had) < most {
                std::hint::spin_loop();
            }
        };
        let (done, ran) = aside.ask(7, LONG, move || compute(Nanos::from_millis(50)));
        assert!(done.is_some() && (SHORT..LONG).contains(&ran), "{ran:?}");
        let (done, ran) = aside.ask(7, 10 * SHORT, move || compute(Nanos::from_secs(1)));
        assert!(done.is_none() && ran >= 10 * SHORT, "{ran:?}");
    }

    #[test]
    fn where_no_thread_can_be_started_and_all_are_kept_nobody_waits_beyond_the_bound() {
        let mut aside = Aside::start().expect("threads are left");
        aside.threads = Arc::new(ThreadPool::new(PoolConfig {
            name: "aside",
            role: Role::Aside,
            threads_max: 1,
            idle_max: 1,
        }));
        let (hold, held) = channel::<()>();
        assert!(aside.begin(7, move || _ = held.recv()));
        let (done, kept) = aside.ask(8, 10 * SHORT, || ());
        assert!(done.is_none() && kept >= 10 * SHORT, "{kept:?}");
        drop(hold);
        assert_eq!(aside.ask(8, LONG, || ()).0, Some(()));
    }

    #[test]
    fn all_users_together_leave_root_some_threads() {
        let aside = Aside::start().expect("threads are left");
        let take = |user| std::iter::from_fn(|| aside.enter(user)).collect::<Vec<_>>();
        let of_users: Vec<Vec<Place>> = (1..200).map(take).collect();
        assert!(of_users[0].len() == THREADS_OF_USER_MAX && of_users[198].is_empty());
        assert_eq!(take(ROOT).len(), THREADS_OF_USER_MAX);
    }
}
