//! Futures of time, for tasks on any worker.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use base::Nanos;
use sys::clock;

use crate::rt::local::Local;
use crate::rt::mailbox::lock;
use crate::rt::timers::TimerKey;
use crate::rt::worker_set::WorkerSet;

/// CLOCK_MONOTONIC now.
pub fn now() -> Nanos {
    clock::now()
}

/// Ready after `length`.
pub fn sleep(length: Nanos) -> Sleep {
    sleep_until(clock::now() + length)
}

/// Ready at `deadline`, a time of [`now`]. It never is early, and late by what its worker is busy
/// with then, or by the wake-up of a sleeping one; [`Nanos::FAR_FUTURE`] never comes.
pub fn sleep_until(deadline: Nanos) -> Sleep {
    Sleep { deadline, timer: None }
}

/// A future that is ready at a time. Dropped, its timer is gone.
///
/// # Panics
/// When it is polled outside of a task of [`crate::rt::run`]: a programmer's error.
#[must_use = "a future does nothing until it is awaited"]
pub struct Sleep {
    deadline: Nanos,
    /// Set while a worker has a timer for it.
    timer: Option<Timer>,
}

struct Timer {
    worker_set: Arc<WorkerSet>,
    worker: usize,
    key: TimerKey,
}

impl Sleep {
    /// When it is ready.
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if clock::now() >= self.deadline {
            self.timer = None;
            return Poll::Ready(());
        }
        if let Some(Timer { worker_set, worker, key }) = &self.timer
            && let Some(waker) = lock(&worker_set.mailboxes[*worker].timers).get_mut(*key)
        {
            waker.clone_from(context.waker());
            return Poll::Pending;
        }
        if self.deadline != Nanos::FAR_FUTURE {
            let local = Local::here();
            let waker = context.waker().clone();
            let key = lock(&local.mailbox().timers).insert(self.deadline, waker);
            self.timer =
                Some(Timer { worker_set: Arc::clone(&local.worker_set), worker: local.index, key });
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = lock(&self.worker_set.mailboxes[self.worker].timers).remove(self.key);
        drop(waker);
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// The time was up before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time was up before it was done")
    }
}

impl std::error::Error for Elapsed {}

/// What `future` gives, if it does within `length`; else it is dropped.
///
/// # Errors
/// The time was up.
pub async fn timeout<F: Future>(length: Nanos, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut sleep = sleep(length);
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut sleep).poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// Ticks `period` (at least 1 ns) apart, the first of them one period from now.
pub fn interval(period: Nanos) -> Interval {
    let period = period.max(Nanos(1));
    Interval { next: clock::now() + period, period }
}

/// What [`interval`] gives.
#[derive(Debug)]
pub struct Interval {
    next: Nanos,
    period: Nanos,
}

impl Interval {
    /// Waits for the next tick; returns the time at which it was due. Ticks that were not waited
    /// for are left out, and the others keep their times.
    pub async fn tick(&mut self) -> Nanos {
        sleep_until(self.next).await;
        let due = self.next;
        self.next = after(due, self.period, clock::now());
        due
    }
}

/// The first tick after `now` of those that are `period` apart, `due` being one.
fn after(due: Nanos, period: Nanos, now: Nanos) -> Nanos {
    let ticks = now.since(due).0 / period.0 + 1;
    due + Nanos(ticks.saturating_mul(period.0))
}

/// Lets the other tasks of this worker run, and its packets be looked at.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_that_were_missed_are_left_out_and_the_others_keep_their_times() {
        let period = Nanos(10);
        for (now, next) in [(100, 110), (101, 110), (109, 110), (110, 120), (145, 150)] {
            assert_eq!(after(Nanos(100), period, Nanos(now)), Nanos(next), "{now}");
        }
    }
}
