//! Tasks that stay on the worker that spawned them: those that hold its sockets.
//!
//! Their futures need not be `Send` and lie in a table of the worker's thread. Wakers, which may be
//! anywhere, know a number of it.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::rt::join::{Abandon, Cancel, Join, JoinError, JoinHandle};
use crate::rt::local::Local;
use crate::rt::readiness::Readiness;
use crate::rt::slab::Slab;
use crate::rt::watch::Site;
use crate::rt::worker_set::WorkerSet;

/// The part of a bound task that any thread may touch.
#[derive(Debug)]
pub(crate) struct BoundTask {
    readiness: Readiness,
    worker_set: Arc<WorkerSet>,
    worker: usize,
    number: usize,
    site: Site,
    is_cancelled: AtomicBool,
}

/// The bound tasks of a worker.
pub(crate) struct BoundTasks(RefCell<Slab<Entry>>);

struct Entry {
    task: Arc<BoundTask>,
    /// `None` while it is polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    outcome: Rc<dyn Abandon>,
}

/// [`Join`] as the table has it: the result need not be `Send`.
struct Outcome<T>(Arc<Join<T>>);

impl<T> Abandon for Outcome<T> {
    fn abandon(&self, why: JoinError) {
        self.0.abandon(why);
    }
}

impl BoundTasks {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Slab::new()))
    }

    pub(crate) fn spawn<F>(&self, local: &Local, site: Site, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
    {
        let join = Arc::new(Join::new());
        let result = Arc::clone(&join);
        let future: Pin<Box<dyn Future<Output = ()>>> =
            Box::pin(async move { result.end(Ok(future.await)) });
        let outcome = Rc::new(Outcome(Arc::clone(&join)));
        let entry = |number| Entry {
            task: Arc::new(BoundTask {
                readiness: Readiness::queued(),
                worker_set: Arc::clone(&local.worker_set),
                worker: local.index,
                number,
                site,
                is_cancelled: AtomicBool::new(false),
            }),
            future: Some(future),
            outcome,
        };
        let task = Arc::clone(&self.0.borrow_mut().insert_with(entry).task);
        local.mailbox().counters.spawned.add(1);
        Arc::clone(&task).queue();
        JoinHandle::new(join, task)
    }

    /// Polls a task once, having taken it out of the queue.
    pub(crate) fn run(&self, task: Arc<BoundTask>, local: &Local) {
        task.readiness.begin();
        if task.is_cancelled.load(Ordering::Acquire) {
            self.finish(&task, JoinError::Cancelled);
            return;
        }
        let number = task.number;
        // Taken out meanwhile: it may spawn others, and the table be moved.
        let future = self.0.borrow_mut().get_mut(number).and_then(|entry| entry.future.take());
        let Some(mut future) = future else { return };
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let poll = || future.as_mut().poll(&mut context);
        let polled = local.timed(task.site, || catch_unwind(AssertUnwindSafe(poll)));
        if let Some(entry) = self.0.borrow_mut().get_mut(number) {
            entry.future = Some(future);
        }
        match polled {
            Ok(Poll::Pending) => {
                if task.readiness.end() {
                    task.queue();
                }
            }
            Ok(Poll::Ready(())) => self.finish(&task, JoinError::Cancelled),
            Err(payload) => {
                local.mailbox().counters.panics.add(1);
                self.finish(&task, JoinError::panicked(payload.as_ref()));
            }
        }
    }

    /// `why` counts when it has not given its result.
    fn finish(&self, task: &BoundTask, why: JoinError) {
        let entry = self.0.borrow_mut().remove(task.number);
        if let Some(entry) = entry {
            entry.end(why);
        }
    }

    /// Ends all of them: the worker ends.
    pub(crate) fn clear(&self) {
        loop {
            let entries = self.0.borrow_mut().drain();
            if entries.is_empty() {
                return;
            }
            // What a future does when it is dropped may spawn another one.
            entries.into_iter().for_each(|entry| entry.end(JoinError::Cancelled));
        }
    }
}

impl Entry {
    fn end(self, why: JoinError) {
        let Self { task, future, outcome } = self;
        task.readiness.finish();
        // What is left of a task may panic as well, and may harm nobody else either.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
        outcome.abandon(why);
    }
}

impl BoundTask {
    fn queue(self: Arc<Self>) {
        let worker_set = Arc::clone(&self.worker_set);
        worker_set.queue_bound(self.worker, self, Local::stamp());
    }
}

impl Wake for BoundTask {
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

impl Cancel for BoundTask {
    fn cancel(self: Arc<Self>) {
        self.is_cancelled.store(true, Ordering::Release);
        self.wake();
    }
}
