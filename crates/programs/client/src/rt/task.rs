//! A task that any worker may run.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::rt::join::{Abandon, Cancel, Join, JoinError, JoinHandle};
use crate::rt::local::Local;
use crate::rt::mailbox::lock;
use crate::rt::readiness::Readiness;
use crate::rt::watch::Site;
use crate::rt::worker_set::WorkerSet;

/// A spawned future and where it stands. It is woken to the worker that ran it last, whose caches
/// know it, and goes to another only when that one has nothing to do.
pub(crate) struct Task {
    readiness: Readiness,
    /// Whoever took the task out of a queue has it to itself: the lock is never waited for.
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    outcome: Arc<dyn Abandon + Send + Sync>,
    site: Site,
    worker_set: Arc<WorkerSet>,
    /// The worker that ran it last.
    last: AtomicUsize,
    /// Where it was spawned, and its number there.
    home: (usize, usize),
    is_cancelled: AtomicBool,
}

impl Task {
    /// Spawns `future` on worker `home`.
    pub(crate) fn spawn<F>(
        worker_set: &Arc<WorkerSet>,
        home: usize,
        site: Site,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let join = Arc::new(Join::new());
        let result = Arc::clone(&join);
        let work = Box::pin(async move { result.end(Ok(future.await)) });
        let outcome = Arc::clone(&join);
        let task = |number| {
            Arc::new(Self {
                readiness: Readiness::queued(),
                future: Mutex::new(Some(work)),
                outcome,
                site,
                worker_set: Arc::clone(worker_set),
                last: AtomicUsize::new(home),
                home: (home, number),
                is_cancelled: AtomicBool::new(false),
            })
        };
        let mailbox = &worker_set.mailboxes[home];
        mailbox.counters.spawned.add(1);
        let task = Arc::clone(lock(&mailbox.spawned).insert_with(task));
        worker_set.queue(home, Arc::clone(&task), Local::stamp());
        JoinHandle::new(join, task)
    }

    /// Polls it once, having taken it out of a queue.
    pub(crate) fn run(self: Arc<Self>, local: &Local) {
        self.readiness.begin();
        self.last.store(local.index, Ordering::Relaxed);
        if self.is_cancelled.load(Ordering::Acquire) {
            self.finish(None);
            return;
        }
        let waker = Waker::from(Arc::clone(&self));
        let polled = {
            let mut future = lock(&self.future);
            let Some(future) = future.as_mut() else { return };
            let mut context = Context::from_waker(&waker);
            let poll = || future.as_mut().poll(&mut context);
            local.timed(self.site, || catch_unwind(AssertUnwindSafe(poll)))
        };
        match polled {
            Ok(Poll::Pending) => {
                if self.readiness.end() {
                    self.queue();
                }
            }
            Ok(Poll::Ready(())) => self.finish(None),
            Err(payload) => {
                local.mailbox().counters.panics.add(1);
                self.finish(Some(JoinError::panicked(payload.as_ref())));
            }
        }
    }

    fn finish(&self, why: Option<JoinError>) {
        let (home, number) = self.home;
        let removed = lock(&self.worker_set.mailboxes[home].spawned).remove(number);
        drop(removed);
        self.end(why.unwrap_or(JoinError::Cancelled));
    }

    /// The runtime has ended and runs it no more.
    pub(crate) fn end_without_result(&self) {
        self.end(JoinError::Cancelled);
    }

    fn end(&self, why: JoinError) {
        self.readiness.finish();
        let future = lock(&self.future).take();
        // What is left of a task may panic as well, and may harm nobody else either.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
        self.outcome.abandon(why);
    }

    fn queue(self: Arc<Self>) {
        let worker = self.last.load(Ordering::Relaxed);
        let worker_set = Arc::clone(&self.worker_set);
        worker_set.queue(worker, self, Local::stamp());
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.readiness.wake() {
            self.queue();
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.readiness.wake() {
            Arc::clone(self).queue();
        }
    }
}

impl Cancel for Task {
    fn cancel(self: Arc<Self>) {
        self.is_cancelled.store(true, Ordering::Release);
        self.wake();
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("site", &self.site).finish_non_exhaustive()
    }
}
