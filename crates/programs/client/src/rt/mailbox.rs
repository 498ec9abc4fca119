//! What other threads may touch of a worker: its queues of tasks, its timers, its doorbell.
//!
//! Each lock is held for a push, a pop or a split, and is its worker's alone nearly always. Nothing
//! is dropped or woken under one: that may be the program's code.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use base::Nanos;
use shm::{Doorbell, Frame};
use sys::SysError;
use sys::eventfd::EventFd;

use crate::rt::bound::BoundTask;
use crate::rt::slab::Slab;
use crate::rt::stats::{Counters, Stats};
use crate::rt::task::Task;
use crate::rt::timers::Timers;
use crate::rt::watch::Watch;

/// The lock on something, whoever panicked while holding it: no invariant spans two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One worker's.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// Tasks that any worker may run.
    tasks: Mutex<Queue<Task>>,
    /// Tasks that only this one may run.
    bound: Mutex<Queue<BoundTask>>,
    /// Tasks ever put into both queues, and ever taken out; they wrap.
    put: AtomicU32,
    taken: AtomicU32,
    pub(crate) timers: Mutex<Timers<Waker>>,
    /// Every task that was spawned here and has not ended.
    pub(crate) spawned: Mutex<Slab<Arc<Task>>>,
    /// Frames of this worker that another one has done with.
    returned: Mutex<Vec<Frame>>,
    has_returned: AtomicBool,
    pub(crate) watch: Mutex<Watch>,
    pub(crate) counters: Counters,
    /// Armed while the worker sleeps, or is about to.
    doorbell: Doorbell,
    /// Ends its sleep.
    pub(crate) alarm: Arc<EventFd>,
    /// It was woken to look for what others have to do.
    pub(crate) is_called: AtomicBool,
}

/// Each with the time when it was put in.
type Queue<T> = VecDeque<(Nanos, Arc<T>)>;

impl Mailbox {
    pub(crate) fn new() -> Result<Self, SysError> {
        Ok(Self {
            tasks: Mutex::default(),
            bound: Mutex::default(),
            put: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            timers: Mutex::new(Timers::new()),
            spawned: Mutex::new(Slab::new()),
            returned: Mutex::default(),
            has_returned: AtomicBool::new(false),
            watch: Mutex::default(),
            counters: Counters::default(),
            doorbell: Doorbell::new(),
            alarm: Arc::new(EventFd::new()?),
            is_called: AtomicBool::new(false),
        })
    }

    /// Queues a task that any worker may run; how many wait now.
    pub(crate) fn put_task(&self, now: Nanos, task: Arc<Task>) -> usize {
        self.put.fetch_add(1, Ordering::Relaxed);
        let mut tasks = lock(&self.tasks);
        tasks.push_back((now, task));
        tasks.len()
    }

    /// Queues a task of this worker.
    pub(crate) fn put_bound(&self, now: Nanos, task: Arc<BoundTask>) {
        self.put.fetch_add(1, Ordering::Relaxed);
        lock(&self.bound).push_back((now, task));
    }

    pub(crate) fn next_task(&self) -> Option<Arc<Task>> {
        let (_, task) = lock(&self.tasks).pop_front()?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(task)
    }

    pub(crate) fn next_bound(&self) -> Option<Arc<BoundTask>> {
        let (_, task) = lock(&self.bound).pop_front()?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(task)
    }

    /// Moves the older half of another worker's tasks here, those bound to it left alone; how many.
    pub(crate) fn steal_from(&self, victim: &Self) -> usize {
        // Two locks one after the other: another thief may come the opposite way.
        let mut stolen: Queue<Task> = {
            let mut tasks = lock(&victim.tasks);
            let half = tasks.len().div_ceil(2);
            tasks.drain(..half).collect()
        };
        let count = stolen.len();
        if count > 0 {
            victim.taken.fetch_add(count as u32, Ordering::Relaxed);
            self.put.fetch_add(count as u32, Ordering::Relaxed);
            lock(&self.tasks).append(&mut stolen);
        }
        count
    }

    /// Tasks in both queues.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.tasks).len() + lock(&self.bound).len()
    }

    pub(crate) fn has_stealable(&self) -> bool {
        !lock(&self.tasks).is_empty()
    }

    /// The figures of the run queue for the daemon: ever put, ever taken, age of the oldest.
    pub(crate) fn run_queue(&self, now: Nanos) -> (u32, u32, Nanos) {
        let fronts = [
            lock(&self.tasks).front().map(|(since, _)| *since),
            lock(&self.bound).front().map(|(since, _)| *since),
        ];
        let oldest = fronts.into_iter().flatten().min();
        let (put, taken) = (self.put.load(Ordering::Relaxed), self.taken.load(Ordering::Relaxed));
        (put, taken, oldest.map_or(Nanos::ZERO, |since| now.since(since)))
    }

    /// A frame of this worker that another one has done with.
    pub(crate) fn give_back(&self, frame: Frame) {
        lock(&self.returned).push(frame);
        self.has_returned.store(true, Ordering::Release);
    }

    pub(crate) fn has_returned(&self) -> bool {
        self.has_returned.load(Ordering::Acquire)
    }

    pub(crate) fn take_returned(&self) -> Vec<Frame> {
        // Before the frames are taken: one that comes in between shows again.
        self.has_returned.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.returned))
    }

    /// The worker is about to sleep. It looks for work once more before it does.
    pub(crate) fn arm(&self) {
        self.doorbell.arm();
    }

    pub(crate) fn disarm(&self) {
        self.doorbell.disarm();
    }

    /// There is something new here: wakes the worker if it sleeps. Whether it did.
    pub(crate) fn ring(&self) -> bool {
        let is_asleep = self.doorbell.ring();
        if is_asleep {
            self.counters.wakes.add(1);
            self.alarm.ring();
        }
        is_asleep
    }

    pub(crate) fn stats(&self) -> Stats {
        let lateness = lock(&self.timers).lateness();
        self.counters.stats(lateness)
    }

    /// Forgets everything that waits. For after the worker's end.
    pub(crate) fn clear(&self) {
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        let bound = std::mem::take(&mut *lock(&self.bound));
        let wakers = lock(&self.timers).clear();
        let spawned = lock(&self.spawned).drain();
        let frames = self.take_returned();
        for task in &spawned {
            task.end_without_result();
        }
        drop((tasks, bound, wakers, frames));
    }
}
