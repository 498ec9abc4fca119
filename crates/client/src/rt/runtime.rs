//! The handle that tasks have of their runtime.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::sync::Arc;
use std::task::Poll;

use crate::rt::crew::Crew;
use crate::rt::join::JoinHandle;
use crate::rt::local::Local;
use crate::rt::mailbox::Mailbox;
use crate::rt::stats::Stats;
use crate::rt::task::Task;
use crate::rt::watch::{LongPoll, Site};

/// A runtime, for its tasks and for other threads. Cloning gives another handle of the same one.
#[derive(Clone)]
pub struct Runtime {
    crew: Arc<Crew>,
}

impl Runtime {
    pub(crate) fn new(crew: Arc<Crew>) -> Self {
        Self { crew }
    }

    pub(crate) fn crew(&self) -> &Arc<Crew> {
        &self.crew
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

    /// The same, with a name for people: of a poll that takes too long.
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
        Task::spawn(&self.crew, self.crew.home(), site, future)
    }

    /// Starts a task that stays on this worker, as those must that have a socket.
    ///
    /// # Panics
    /// On a thread that is no worker's of this runtime: a programmer's error.
    #[track_caller]
    pub fn spawn_local<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.spawn_local_at(Site { name: None, location: Location::caller() }, future)
    }

    /// The same, with a name for people.
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
        assert!(Arc::ptr_eq(&local.crew, &self.crew), "the task belongs to another runtime");
        local.bound.spawn(&local, site, future)
    }

    /// The worker that runs this task now, below [`Self::workers`]; nothing on other threads.
    pub fn worker(&self) -> Option<usize> {
        let local = Local::current()?;
        Arc::ptr_eq(&local.crew, &self.crew).then_some(local.index)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.crew.mailboxes.len()
    }

    /// The daemon's number for the application.
    pub fn app_id(&self) -> u32 {
        self.crew.app
    }

    /// Asks the main tasks to end: their sockets receive no more, and [`Self::stopping`] is ready. One
    /// that has not ended after `Settings::grace` is dropped. For Ctrl-C, and for the program itself.
    pub fn shutdown(&self) {
        self.crew.stop();
    }

    /// Whether a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.crew.is_stopping()
    }

    /// Ready when a stop is asked for.
    pub async fn stopping(&self) {
        poll_fn(|context| match self.crew.wake_at_stop(context.waker()) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// What all workers have done so far.
    pub fn stats(&self) -> Stats {
        self.crew.stats()
    }

    /// The same by worker.
    pub fn worker_stats(&self) -> Vec<Stats> {
        self.crew.mailboxes.iter().map(Mailbox::stats).collect()
    }

    /// Whose polls took too long.
    pub fn long_polls(&self) -> Vec<LongPoll> {
        self.crew.long_polls()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.workers()).finish_non_exhaustive()
    }
}
