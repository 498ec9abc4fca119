//! What a worker does with the packets of its flows.

mod echo;
mod sink;
mod synthetic;

use base::{BURST, Nanos};
use shm::{Frame, Producer};

pub use echo::Echo;
pub use sink::Sink;
pub use synthetic::{ITERATIONS_MAX, REQUEST_BYTES, Synthetic, SyntheticState, work};

use crate::message::{FromWorker, Moving};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it, changed in place, out of the port named in its meta.
    Transmit,
    /// Done with it.
    Consume,
    /// The job keeps the frame: it gets it by [`Job::keep`].
    Keep,
    /// Refused, and counted by reason.
    Refuse(Refusal),
}

/// Why a job refused a packet. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The job answers another protocol.
    NotUdp,
    /// The payload is not a request of this job.
    BadRequest,
    /// There is no room for the state of another flow.
    StateFull,
    /// Another worker was touching the same flow: the one-owner invariant is broken.
    FlowInTwoWorkers,
}

/// Work on the packets of some flow groups: the interface that every kind of worker implements.
///
/// Calls come from one thread at a time. Between [`Job::attach`] of a group and the end of
/// [`Job::detach`] of it, and only then, the job may touch the group's flows.
pub trait Job {
    /// One packet of an owned group. `frame.meta()` names group, hash and header offsets.
    fn packet(&mut self, frame: &mut Frame, now: Nanos) -> Verdict;

    /// Gets a frame that [`Verdict::Keep`] asked for.
    fn keep(&mut self, frame: Frame) {
        debug_assert!(false, "only a job that keeps frames gets them");
        drop(frame);
    }

    /// Gets an empty frame that [`Outlet::want`] asked for.
    fn spare(&mut self, frame: Frame) {
        debug_assert!(false, "only a job that wants frames gets them");
        drop(frame);
    }

    /// Finishes what it has kept, and sends what it has to say as far as `outlet` has room. Comes
    /// after a step's packets, and before a barrier, an attach or the end takes effect. Returns
    /// whether it has done anything. A job that answers each packet at once has nothing to do here.
    fn turn(&mut self, _now: Nanos, _outlet: &mut Outlet<'_>) -> bool {
        false
    }

    /// When [`Self::turn`] is due although nothing arrives.
    fn next_deadline(&self) -> Nanos {
        Nanos::FAR_FUTURE
    }

    /// The worker is about to sleep: whoever has something for the job must wake it from now on.
    /// False: there is something already.
    fn arm(&self) -> bool {
        true
    }

    /// The worker is awake.
    fn disarm(&self) {}

    /// Whether the worker may wait on a CPU for more to do.
    fn may_spin(&self) -> bool {
        true
    }

    /// Since when somebody on this machine owes an answer to what the job has told.
    fn owed_since(&self) -> Option<Nanos> {
        None
    }

    /// Says good-bye to everybody, with the next turns: no more packets come.
    fn close(&mut self) {}

    /// The worker ends: one of the frames that the job still has.
    fn surrender(&mut self) -> Option<Frame> {
        None
    }

    /// Gives up everything held for what moves: timers, commands, pending output. Returns true
    /// when all is given up; false asks to be called again (a bounded part was done), and
    /// packets of groups that stay are processed in between.
    fn detach(&mut self, moving: Moving, now: Nanos) -> bool;

    /// From now on what moves is ours.
    fn attach(&mut self, moving: Moving, now: Nanos);
}

/// Where a job leaves frames to be sent, and asks for empty ones.
pub struct Outlet<'a> {
    outbox: &'a mut Producer<FromWorker>,
    /// Messages that the job may still leave.
    room: usize,
    sent: usize,
}

impl<'a> Outlet<'a> {
    /// What is left goes into `outbox`, as far as it has room; one message of that is the worker's.
    pub fn new(outbox: &'a mut Producer<FromWorker>) -> Self {
        // One message is the worker's own, for a hand-over that ends.
        let room = outbox.room().saturating_sub(1);
        Self { outbox, room, sent: 0 }
    }

    /// Frames that can be left now, at most; never more than a batch at a time is of use.
    #[inline]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Sends a frame by the port in its meta. Look for room before.
    #[inline]
    pub fn send(&mut self, mut frame: Frame) {
        frame.meta_mut().transmit = true;
        self.sent += 1;
        self.post(FromWorker::Packet(frame));
    }

    /// Frames sent so far.
    #[inline]
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Gives a frame back that is not needed.
    #[inline]
    pub fn give_back(&mut self, mut frame: Frame) {
        frame.meta_mut().transmit = false;
        self.post(FromWorker::Packet(frame));
    }

    /// Asks for that many empty frames, at most a batch; they come by [`Job::keep`], when there are
    /// any.
    #[inline]
    pub fn want(&mut self, frames: usize) {
        self.post(FromWorker::Wants(frames.min(BURST) as u16));
    }

    #[inline]
    fn post(&mut self, message: FromWorker) {
        let posted = self.outbox.stage(message);
        debug_assert!(posted.is_ok() && self.room > 0, "whoever posts has looked for room");
        self.room = self.room.saturating_sub(1);
    }
}
