//! The handle that tasks have of their runtime.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::sync::Arc;
use std::task::Poll;

use crate::rt::join::JoinHandle;
use crate::rt::local::Local;
use crate::rt::mailbox::Mailbox;
use crate::rt::stats::Stats;
use crate::rt::task::Task;
use crate::rt::watch::{LongPoll, Site};
use crate::rt::worker_set::WorkerSet;

/// A runtime, for its tasks and for other threads. Cloning gives another handle of the same one.
#[derive(Clone)]
pub struct Runtime {
    worker_set: Arc<WorkerSet>,
}

impl Runtime {
    pub(crate) fn new(worker_set: Arc<WorkerSet>) -> Self {
        Self { worker_set }
    }

    pub(crate) fn worker_set(&self) -> &Arc<WorkerSet> {
        &self.worker_set
    }

    /// Starts a task that any worker may run: where it was spawned, or where nothing else is to do.
    /// From a thread that is no worker's, it begins at each worker in turn.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_at(Site { name: None, location: Location::caller() }, future)
    }

    /// Starts a task as [`Self::spawn`] does, with a name for people: it stands at polls that take
    /// too long.
    #[track_caller]
    pub fn spawn_named<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_at(Site { name: Some(name), location: Location::caller() }, future)
    }

    fn spawn_at<F>(&self, site: Site, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Task::spawn(&self.worker_set, Local::home(&self.worker_set), site, future)
    }

    /// Starts a task that stays on this worker, as those must that have a socket.
    ///
    /// # Panics
    /// On a thread that is no worker's of this runtime: a programmer's error.
    #[track_caller]
    pub fn spawn_local<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.spawn_local_at(Site { name: None, location: Location::caller() }, future)
    }

    /// Starts a task as [`Self::spawn_local`] does, with a name for people.
    ///
    /// # Panics
    /// As [`Self::spawn_local`].
    #[track_caller]
    pub fn spawn_local_named<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
    {
        self.spawn_local_at(Site { name: Some(name), location: Location::caller() }, future)
    }

    #[track_caller]
    fn spawn_local_at<F: Future + 'static>(&self, site: Site, future: F) -> JoinHandle<F::Output> {
        let local = Local::here();
        assert!(
            Arc::ptr_eq(&local.worker_set, &self.worker_set),
            "the task belongs to another runtime"
        );
        local.bound.spawn(&local, site, future)
    }

    /// The worker that runs this task now, below [`Self::workers`]; nothing on other threads.
    pub fn worker(&self) -> Option<usize> {
        let local = Local::current()?;
        Arc::ptr_eq(&local.worker_set, &self.worker_set).then_some(local.index)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.worker_set.mailboxes.len()
    }

    /// The daemon's number for the application.
    pub fn app_id(&self) -> u32 {
        self.worker_set.app
    }

    /// Asks the main tasks to end: their sockets receive no more, and [`Self::stopping`] is ready.
    /// One that has not ended after `Settings::grace` is dropped. For Ctrl-C, and for the program
    /// itself.
    pub fn shutdown(&self) {
        self.worker_set.stop();
    }

    /// Whether a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.worker_set.is_stopping()
    }

    /// Ready when a stop is asked for.
    pub async fn stopping(&self) {
        poll_fn(|context| match self.worker_set.wake_at_stop(context.waker()) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// What all workers have done so far.
    pub fn stats(&self) -> Stats {
        self.worker_set.stats()
    }

    /// What each worker has done so far.
    pub fn worker_stats(&self) -> Vec<Stats> {
        self.worker_set.mailboxes.iter().map(Mailbox::stats).collect()
    }

    /// The tasks whose polls took too long, by the line that spawned them.
    pub fn long_polls(&self) -> Vec<LongPoll> {
        self.worker_set.long_polls()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.workers()).finish_non_exhaustive()
    }
}
