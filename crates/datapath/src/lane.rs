//! The dispatcher's side of one worker: its rings, its bell, and whether it is still there.

use std::sync::Arc;

use base::{Epoch, Nanos, WorkerId};
use policy::WorkerSample;
use shm::{Consumer, Doorbell, Frame, Producer};

use crate::counters::CounterReader;
use crate::message::{FromWorker, Moving, ToWorker};

/// How a sleeping worker is woken: called only when it sleeps.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The ends of a worker's rings that belong to the dispatcher, and how to wake it.
pub struct LaneEnds {
    /// Messages to the worker.
    pub to_worker: Producer<ToWorker>,
    /// Messages from it.
    pub from_worker: Consumer<FromWorker>,
    /// Rung after each publication.
    pub bell: Arc<Doorbell>,
    /// Wakes it when the bell says that it sleeps.
    pub wake: Wake,
    /// What it counts.
    pub counters: CounterReader,
}

/// Where a worker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// It may be given groups.
    Active,
    /// It was asked to leave and still owns groups.
    Leaving,
    /// It owns nothing and has been told to end.
    Retiring,
}

/// One worker as the dispatcher sees it.
pub(crate) struct Lane {
    id: WorkerId,
    pub(crate) state: LaneState,
    ends: LaneEnds,
    staged: bool,
    /// An old owner has passed the mark of this epoch, and the worker has not been told yet: it
    /// must be, before the first packet that may belong to a group that it gained.
    owes_attach: Option<Epoch>,
    /// Position in the ring at `marked_at`: once that is consumed, a newer one is taken.
    mark: u64,
    marked_at: Nanos,
}

impl Lane {
    pub(crate) fn new(id: WorkerId, ends: LaneEnds) -> Self {
        Self {
            id,
            state: LaneState::Active,
            ends,
            staged: false,
            owes_attach: None,
            mark: 0,
            marked_at: Nanos::ZERO,
        }
    }

    pub(crate) fn id(&self) -> WorkerId {
        self.id
    }

    pub(crate) fn counters(&self) -> &CounterReader {
        &self.ends.counters
    }

    /// Puts a packet into the ring; it comes back when that is full.
    #[inline]
    pub(crate) fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.owes_attach.is_some() && !self.pay_attach() {
            return Err(frame);
        }
        match self.ends.to_worker.stage(ToWorker::Packet(frame)) {
            Ok(()) => {
                self.staged = true;
                Ok(())
            }
            Err(ToWorker::Packet(frame)) => Err(frame),
            Err(_) => unreachable!("a ring returns what it was given"),
        }
    }

    /// Puts a control message into the ring; false when that is full.
    pub(crate) fn control(&mut self, message: ToWorker) -> bool {
        let staged = self.ends.to_worker.stage(message).is_ok();
        self.staged |= staged;
        staged
    }

    pub(crate) fn owe_attach(&mut self, epoch: Epoch) {
        self.owes_attach = Some(epoch);
    }

    /// Tells the worker what it gained, if that is still to be told; false when the ring is full.
    pub(crate) fn pay_attach(&mut self) -> bool {
        let Some(epoch) = self.owes_attach else {
            return true;
        };
        if !self.control(ToWorker::Attach(Moving::Epoch(epoch))) {
            return false;
        }
        self.owes_attach = None;
        true
    }

    /// Shows the worker what was staged, and wakes it if it sleeps.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.staged {
            self.staged = false;
            self.ends.to_worker.publish();
            if self.ends.bell.ring() {
                (self.ends.wake)();
            }
        }
    }

    /// Whether one more packet can be sent for certain.
    pub(crate) fn has_room(&self) -> bool {
        self.ends.to_worker.room() > usize::from(self.owes_attach.is_some())
    }

    /// Everything that a dead worker did not complete, oldest first.
    pub(crate) fn into_undone(mut self, mut inbox: Consumer<ToWorker>) -> Vec<ToWorker> {
        self.ends.to_worker.publish();
        std::iter::from_fn(|| inbox.pop()).collect()
    }

    pub(crate) fn next_message(&mut self) -> Option<FromWorker> {
        self.ends.from_worker.take()
    }

    pub(crate) fn release_messages(&mut self) {
        self.ends.from_worker.release();
    }

    pub(crate) fn has_messages(&self) -> bool {
        !self.ends.from_worker.is_empty()
    }

    /// Packets and messages that the worker has not completed.
    pub(crate) fn queued(&self) -> usize {
        self.ends.to_worker.len()
    }

    /// The state of the queue. The delay is the age of the oldest position that was seen at an
    /// earlier sample and is still not consumed (Caladan's approximation): at least that long has
    /// something waited.
    pub(crate) fn sample(&mut self, now: Nanos) -> WorkerSample {
        let queued = self.ends.to_worker.len();
        if queued == 0 || self.ends.to_worker.consumed() >= self.mark {
            self.mark = self.ends.to_worker.produced();
            self.marked_at = now;
        }
        let delay = if queued == 0 { Nanos::ZERO } else { now.since(self.marked_at) };
        WorkerSample { id: self.id, queued: queued as u32, delay }
    }
}
