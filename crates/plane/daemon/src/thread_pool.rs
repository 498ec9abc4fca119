//! Threads that do one job after the other, instead of a thread for each.
//!
//! A confined thread has a filter of system calls of its own, and the kernel's JIT gives a filter's
//! memory back some time after the thread has ended. Threads that come and go at the pace of an
//! operator's questions queue that work faster than it is done: Linux 6.18 stopped for good with
//! a thousand such pieces queued behind the lock of the JIT's memory. So who has done a job waits
//! for the next one.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::confinement::{self, Role};

type Job = Box<dyn FnOnce() + Send>;

/// Threads of one role. They end when this drops, each after the job that it has and those that
/// wait.
pub(crate) struct ThreadPool {
    shared: Arc<Shared>,
}

/// What a pool is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolConfig {
    /// What its threads are called.
    pub(crate) name: &'static str,
    /// What they may do.
    pub(crate) role: Role,
    /// Threads at once, at most: jobs beyond these wait for one.
    pub(crate) threads_max: usize,
    /// Threads that are kept without a job.
    pub(crate) idle_max: usize,
}

struct Shared {
    config: PoolConfig,
    state: Mutex<State>,
    /// A job has come, or the end.
    news: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Of these, those that wait for a job.
    idle: usize,
    has_ended: bool,
}

impl ThreadPool {
    /// A pool without a thread yet.
    pub(crate) fn new(config: PoolConfig) -> Self {
        let state = Mutex::new(State::default());
        Self { shared: Arc::new(Shared { config, state, news: Condvar::new() }) }
    }

    /// Has a thread do `job`, now or as soon as one is free. A panic in it ends the job only.
    /// False: none is free, and none can be started, so that it waits for whatever keeps the
    /// others.
    ///
    /// # Errors
    /// There is no thread at all, and none could be started; the job is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> std::io::Result<bool> {
        let mut state = self.shared.lock();
        state.jobs.push_back(Box::new(job));
        let mut has_thread = state.jobs.len() <= state.idle;
        if !has_thread && state.threads < self.shared.config.threads_max {
            let shared = Arc::clone(&self.shared);
            let name = self.shared.config.name.to_owned();
            // Not joined: it may wait for somebody else's file when the daemon ends.
            match std::thread::Builder::new().name(name).spawn(move || shared.work()) {
                Ok(_) => {
                    state.threads += 1;
                    has_thread = true;
                }
                // One of those that are there will take it.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    state.jobs.pop_back();
                    return Err(error);
                }
            }
        }
        self.shared.news.notify_one();
        Ok(has_thread)
    }

    /// Threads that there are.
    #[cfg(test)]
    fn threads(&self) -> usize {
        self.shared.lock().threads
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.news.notify_all();
    }
}

impl Shared {
    /// What a thread does.
    fn work(&self) {
        if !confinement::is_entered(self.config.role) {
            // The daemon ends.
            self.lock().threads -= 1;
            return;
        }
        while let Some(job) = self.next() {
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// Waits for a job; none: the thread is to end, and counts no more.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.has_ended || state.idle >= self.config.idle_max {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc::channel;

    use super::*;

    fn pool(threads_max: usize, idle_max: usize) -> ThreadPool {
        ThreadPool::new(PoolConfig { name: "pooled", role: Role::Closer, threads_max, idle_max })
    }

    #[test]
    fn jobs_that_follow_each_other_are_one_threads() {
        let pool = pool(16, 16);
        let mut threads = BTreeSet::new();
        for _ in 0..100 {
            let (done, heard) = channel();
            let job = move || done.send(format!("{:?}", std::thread::current().id()));
            pool.run(move || job().expect("the test waits")).expect("threads are left");
            threads.insert(heard.recv().expect("the job is done"));
            while pool.shared.lock().idle == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!((threads.len(), pool.threads()), (1, 1));
    }

    #[test]
    fn jobs_that_wait_for_each_other_have_a_thread_each_up_to_the_most_and_the_rest_wait() {
        let pool = pool(3, 2);
        let (begun, begins) = channel();
        let gates: Vec<_> = (0..5)
            .map(|number| {
                let (opens, gate) = channel::<()>();
                let begun = begun.clone();
                let job = move || {
                    begun.send(number).expect("the test waits");
                    let _ = gate.recv();
                };
                pool.run(job).expect("threads are left");
                opens
            })
            .collect();
        let at_once: BTreeSet<i32> = begins.iter().take(3).collect();
        assert_eq!(at_once, BTreeSet::from([0, 1, 2]));
        assert!(begins.try_recv().is_err(), "three is the most");
        assert_eq!(pool.threads(), 3);
        drop(gates);
        assert_eq!(begins.iter().take(2).collect::<BTreeSet<_>>(), BTreeSet::from([3, 4]));
        // Two are kept without a job.
        while pool.threads() > 2 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_job_that_panics_ends_no_thread_and_all_end_with_the_pool() {
        let pool = pool(1, 1);
        pool.run(|| panic!("as it is meant to")).expect("threads are left");
        let (done, heard) = channel();
        pool.run(move || done.send(()).expect("the test waits")).expect("threads are left");
        heard.recv().expect("the job after it is done");
        assert_eq!(pool.threads(), 1);
        let shared = Arc::clone(&pool.shared);
        drop(pool);
        while shared.lock().threads > 0 {
            std::thread::yield_now();
        }
    }
}
