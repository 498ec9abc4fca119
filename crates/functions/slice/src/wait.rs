//! Waiting until a packet has come: look for as long as it pays, then sleep.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use base::Nanos;
use port::Port;
use sched::Step;
use shm::Waited;
use sys::eventfd::EventFd;
use sys::poll_set::PollSet;
use sys::{clock, poll};

use crate::{Slice, SliceError};

/// A port without a descriptor is looked at as often as this, however long the sleep may be.
const BLIND_SLEEP_MAX: Nanos = Nanos::from_micros(100);

/// Ends a slice's wait from another thread.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<EventFd>,
}

impl Waker {
    pub(crate) fn new(event: Arc<EventFd>) -> Self {
        Self { event }
    }

    /// The slice's present wait ends at once, or its next one when it is not waiting.
    pub fn wake(&self) {
        self.event.ring();
    }
}

impl<P: Port> Slice<P> {
    /// Waits until [`Slice::read_multi`] has something to give or its [`Waker`] was rung, for
    /// `timeout` at most ([`Nanos::FAR_FUTURE`]: for ever). A signal ends a sleep too, as "ready".
    ///
    /// It looks on for as long as the gaps of the recent past make that pay, and sleeps after that.
    pub fn wait(&mut self, timeout: Nanos) -> Waited {
        let mut now = clock::now();
        let end = Nanos(now.0.saturating_add(timeout.0));
        let mut asleep_since = None;
        loop {
            if self.look(now) {
                let wake_cost = self.wait_strategy.budget().wake_cost();
                // What ended a sleep came before the wake-up that it cost.
                let woken = Nanos(now.0.saturating_sub(wake_cost.0));
                self.wait_strategy.found(asleep_since.map_or(now, |since| woken.max(since)));
                return Waited::Ready;
            }
            if now >= end {
                return Waited::TimedOut;
            }
            match self.wait_strategy.nothing(now, false) {
                Step::Pause | Step::Yield => std::hint::spin_loop(),
                Step::Sleep => {
                    if self.prepare_wait() {
                        return Waited::Ready;
                    }
                    now = clock::now();
                    if self.look(now) {
                        continue;
                    }
                    asleep_since.get_or_insert(now);
                    if self.sleep(end, now) {
                        return Waited::Ready;
                    }
                }
            }
            now = clock::now();
        }
    }

    /// Readable when there may be something to read: for a loop that waits for more than this
    /// slice. Call [`Slice::prepare_wait`] and then [`Slice::read_multi`] once more before each
    /// sleep on it, and sleep no longer than until [`Slice::next_deadline`].
    ///
    /// From the first call on the kernel tells this descriptor of every packet, which costs a tenth
    /// of what a packet costs on a veth. [`Slice::wait`] does without.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn poll_fd(&mut self) -> Result<BorrowedFd<'_>, SliceError> {
        let readable = match self.readable.take() {
            Some(readable) => readable,
            None => {
                let readable = PollSet::new()?;
                readable.add(self.wake.as_fd())?;
                self.ports.iter().filter_map(Port::poll_fd).try_for_each(|fd| readable.add(fd))?;
                readable
            }
        };
        let readable: &PollSet = self.readable.insert(readable);
        Ok(readable.as_fd())
    }

    /// Makes ready for a sleep on [`Slice::poll_fd`]; whether the [`Waker`] was rung since the last
    /// time, which is a reason not to sleep.
    pub fn prepare_wait(&mut self) -> bool {
        let Self { ports, pool, .. } = self;
        ports.iter_mut().for_each(|port| port.prepare_wait(pool));
        self.take_wake()
    }

    /// When there is something to do although the descriptor is not readable;
    /// [`Nanos::FAR_FUTURE`]: never. A port without a descriptor wants to be looked at often.
    pub fn next_deadline(&self) -> Nanos {
        let deadlines = self.ports.iter().map(Port::next_deadline);
        deadlines.min().unwrap_or(Nanos::FAR_FUTURE)
    }

    /// What ends its waits from another thread.
    pub fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.wake))
    }

    /// Whether there is something to read; what was found is kept for the next read.
    fn look(&mut self, now: Nanos) -> bool {
        let (mut intake, found) = self.intake();
        if found.is_empty() {
            intake.receive(found, now);
        }
        !self.found.is_empty()
    }

    /// Sleeps until `end` at most; whether the waker or a signal ended it.
    fn sleep(&mut self, end: Nanos, now: Nanos) -> bool {
        let blind = self.ports.iter().any(|port| port.poll_fd().is_none());
        let blind = if blind { now + BLIND_SLEEP_MAX } else { Nanos::FAR_FUTURE };
        let end = end.min(self.next_deadline()).min(blind);
        let most = if end == Nanos::FAR_FUTURE { end } else { end.since(now) };
        self.counters.sleeps += 1;
        let ports = self.ports.iter().filter_map(Port::poll_fd);
        if poll::wait_any(self.wake.as_fd(), ports, most) {
            return self.take_wake();
        }
        // Neither readable nor late.
        clock::now() < end
    }

    fn take_wake(&mut self) -> bool {
        let is_rung = self.wake.drain() > 0;
        self.counters.woken += u64::from(is_rung);
        is_rung
    }
}
