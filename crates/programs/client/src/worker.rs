//! One thread's share of an application.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use attach::{DetachReason, Detached};
use base::Nanos;
use rustix::time::{ClockId, clock_gettime};
use sched::SpinBudget;
use shm::packets::{Next, PacketEnd};
use shm::{Batch, Frame, Moving, ProtocolViolation};
use sys::SysError;
use sys::eventfd::EventFd;

use crate::shared::{self, Shared};
#[cfg(feature = "rt")]
use crate::sockets::reactor::Reactor;

mod give;
mod grant_side;
mod granted;
mod spin;
mod wait;

pub(crate) use spin::{UNSENT_RETRY, spinning};

use grant_side::GrantSide;

/// Calls that found nothing to do, after which the connection is looked at whatever the clock says.
const IDLE_CALLS_MAX: u32 = 1 << 16;

/// A dead daemon is noticed this soon by a worker that only polls.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Flows that come or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// This worker no longer owns these: every packet of theirs has been done. Give up what is kept
    /// for them before the handler returns; another worker may own them right after.
    Detach(Moving),
    /// This worker owns these from now on.
    Attach(Moving),
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent by the port that it came from, or that was set in its meta data.
    Send,
    /// It is done with.
    Done,
}

/// What a worker has done since it attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received.
    pub received: u64,
    /// Packets given to be sent.
    pub sent: u64,
    /// Packets given back without an answer.
    pub done: u64,
    /// Times that a sleeping daemon was woken.
    pub wakes: u64,
    /// Times that this worker slept.
    pub sleeps: u64,
    /// Times that it gave its core back, because it had nothing to do or was asked to.
    pub parks: u64,
    /// Times that [`Worker::receive`] found nothing.
    pub empty_polls: u64,
}

/// One thread's share of an application: receives the packets of the flows that it owns.
///
/// A frame is given back by the worker that gave it, with `send`, `done` or `step`; keep none for
/// long, since a hand-over waits until every received frame has gone back.
pub struct Worker {
    end: PacketEnd,
    pipe: OwnedFd,
    shared: Arc<Shared>,
    spin: Nanos,
    /// What of that has paid lately.
    learned: SpinBudget,
    handler: Option<Box<dyn FnMut(Handover) + Send>>,
    counters: Counters,
    /// Calls in a row that found nothing to do, and since when.
    idle_calls: u32,
    looked_at: Nanos,
    /// A hand-over waits for frames, of which this many were out.
    frames_out: Option<u32>,
    is_retired: bool,
    /// Its dealings with the core control; none when it runs wherever Linux lets it.
    grant_side: Option<GrantSide>,
    /// Ends its sleep, for other threads of this process.
    alarm: Option<Arc<EventFd>>,
    /// Ends its sleep, for the sockets that tasks wait for.
    #[cfg(feature = "rt")]
    reactor: Option<Arc<Reactor>>,
    /// Of `step`: what the ring had no room for, in its order.
    unsent: Batch,
}

impl Worker {
    pub(crate) fn new(
        end: PacketEnd,
        pipe: OwnedFd,
        shared: Arc<Shared>,
        has_core_grant: bool,
    ) -> Result<Self, SysError> {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        fcntl_getfl(&pipe)
            .and_then(|flags| fcntl_setfl(&pipe, flags | OFlags::NONBLOCK))
            .map_err(|errno| SysError::new("use the daemon's pipe", errno, ""))?;
        Ok(Self {
            end,
            pipe,
            shared,
            spin: Nanos::ZERO,
            learned: SpinBudget::new(spinning(Nanos::ZERO)),
            handler: None,
            counters: Counters::default(),
            idle_calls: 0,
            looked_at: coarse_now(),
            frames_out: None,
            is_retired: false,
            grant_side: has_core_grant.then(GrantSide::default),
            alarm: None,
            #[cfg(feature = "rt")]
            reactor: None,
            unsent: Batch::new(),
        })
    }

    /// Adds received packets to `batch`, as many as it has room for and as there are; returns how
    /// many. Never waits. Hand-overs that are due are carried out, and the frames given back before
    /// are shown to the daemon.
    ///
    /// # Errors
    /// The attachment has ended.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch) -> Result<usize, Detached> {
        self.receive_up_to(batch, usize::MAX)
    }

    /// Adds received packets to `batch` as [`Self::receive`] does, but `count` at most.
    ///
    /// # Errors
    /// The attachment has ended.
    #[inline]
    pub fn receive_up_to(&mut self, batch: &mut Batch, count: usize) -> Result<usize, Detached> {
        self.shared.glance()?;
        if self.must_park() {
            // What waits in the ring is done when it is granted a core again.
            self.flush();
            self.idle()?;
            return Ok(0);
        }
        self.frames_out = None;
        let before = batch.len();
        let end = before + count.min(batch.remaining_capacity());
        while batch.len() < end {
            match self.end.receive().map_err(|violation| self.damaged(violation))? {
                Next::Packet(frame) => batch.push(frame),
                Next::Empty => break,
                Next::FramesOut => {
                    self.frames_out = Some(self.end.received_out());
                    break;
                }
                next => self.control(next),
            }
        }
        let count = batch.len() - before;
        self.counters.received += count as u64;
        // What was read leaves the daemon room for more, and hand-overs are answered.
        self.flush();
        if count == 0 && end > before {
            self.counters.empty_polls += 1;
            self.idle()?;
        } else {
            self.idle_calls = 0;
        }
        Ok(count)
    }

    #[cold]
    fn control(&mut self, next: Next) {
        let handover = match next {
            Next::Detach(moving) => Handover::Detach(moving),
            Next::Attach(moving) => Handover::Attach(moving),
            Next::Retired => {
                self.is_retired = true;
                return;
            }
            Next::Packet(_) | Next::FramesOut | Next::Empty => return,
        };
        if let Some(handler) = &mut self.handler {
            handler(handover);
        }
    }

    /// An empty frame for a packet that answers nothing; none while all are under way. Fill it, set
    /// `meta_mut().port`, and send it.
    pub fn take(&mut self) -> Option<Frame> {
        // Damage shows in the next call that can say so.
        self.end.take().unwrap_or(None)
    }

    /// Shows the daemon what was sent and given back, and wakes it if it sleeps.
    #[inline]
    pub fn flush(&mut self) {
        if self.end.publish() {
            self.counters.wakes += 1;
            self.shared.daemon.ring();
        }
    }

    /// Has `handler` told of flows that come and go, in the middle of [`Self::receive`].
    pub fn on_handover(&mut self, handler: Box<dyn FnMut(Handover) + Send>) {
        self.handler = Some(handler);
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether the daemon has said that no packet follows.
    pub fn is_retired(&self) -> bool {
        self.is_retired
    }

    /// From now on, ringing `alarm` ends a wait.
    #[cfg(feature = "rt")]
    pub(crate) fn set_alarm(&mut self, alarm: Arc<EventFd>) {
        self.alarm = Some(alarm);
    }

    /// From now on, news of sockets ends a wait.
    #[cfg(feature = "rt")]
    pub(crate) fn hear(&mut self, reactor: Arc<Reactor>) {
        self.reactor = Some(reactor);
    }

    /// Whether the daemon has taken everything that was shown to it.
    #[cfg(feature = "rt")]
    pub(crate) fn is_all_taken(&mut self) -> bool {
        self.end.room() == self.shared.memory.sizes().ring_slots as usize
    }

    /// How many frames can be out of this worker at once, received and its own.
    pub fn frames_max(&self) -> usize {
        let sizes = self.shared.memory.sizes();
        (sizes.receive_chunks + sizes.send_chunks) as usize
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn is_of(&self, shared: &Shared) -> bool {
        std::ptr::eq(&*self.shared, shared)
    }

    pub(crate) fn has_core_grant(&self) -> bool {
        self.grant_side.is_some()
    }

    /// Its number in its application.
    pub(crate) fn number(&self) -> u32 {
        self.end.worker()
    }

    pub(crate) fn watch(&self, leader: Option<u32>) {
        self.end.watch(leader);
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    pub(crate) fn has_next(&self) -> bool {
        // A hand-over that waits for our own frames is not to be waited for.
        let is_ours_to_end = self.frames_out.is_some_and(|out| out == self.end.received_out());
        !is_ours_to_end && self.end.has_next()
    }

    /// A call found nothing to do: now and then, looks whether the daemon lives.
    #[inline]
    fn idle(&mut self) -> Result<(), Detached> {
        self.idle_calls += 1;
        let now = coarse_now();
        if self.idle_calls < IDLE_CALLS_MAX && now.since(self.looked_at) < LOOK_EVERY {
            return Ok(());
        }
        self.idle_calls = 0;
        self.looked_at = now;
        self.shared.look()
    }

    #[cold]
    fn damaged(&self, violation: ProtocolViolation) -> Detached {
        let mut detached = shared::of(DetachReason::Damaged);
        detached.message =
            format!("the shared memory is damaged ({}): attach anew", violation.name());
        self.shared.end(detached)
    }
}

/// Some milliseconds old at most, and read without entering the kernel.
#[inline]
fn coarse_now() -> Nanos {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

impl Drop for Worker {
    fn drop(&mut self) {
        for frame in self.unsent.drain(..) {
            // Into a full ring it cannot go: the daemon takes everything back with the attachment.
            if let Err(frame) = self.end.done(frame) {
                let _ = self.end.discard(frame);
            }
        }
        self.flush();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("counters", &self.counters).finish_non_exhaustive()
    }
}
