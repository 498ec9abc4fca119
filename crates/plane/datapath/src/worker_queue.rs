//! The dispatcher's side of one worker: its rings, its doorbell, and whether it is still there.

mod measure;

use std::sync::Arc;

use base::{Epoch, Nanos, WorkerId};
use shm::packets::{PacketQueue, ToApp};
use shm::{Consumer, Doorbell, Frame, Producer, ProtocolViolation};

use crate::app::{AppSide, Taken};
use crate::counters::{CounterReader, CounterWriter, DispatchEvent, WorkerEvent};
use crate::dispatch_context::DispatchContext;
use crate::message::{FromWorker, Moving, ToWorker};

/// This part of all frames is kept for what is received: workers that only send get none of it.
const RECEIVE_RESERVE: usize = 8;

/// How a sleeping worker is woken: called only when it sleeps.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The ends of a worker's rings that belong to the dispatcher, and how to wake it.
pub struct WorkerQueueEnds {
    /// Messages to the worker.
    pub to_worker: Producer<ToWorker>,
    /// Messages from it.
    pub from_worker: Consumer<FromWorker>,
    /// Rung after each publication.
    pub doorbell: Arc<Doorbell>,
    /// Wakes it when the doorbell says that it sleeps.
    pub wake: Wake,
    /// What it counts.
    pub counters: CounterReader,
}

/// Where a worker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerQueueState {
    /// It may be given groups.
    Active,
    /// It is parked for long, or is to be: its groups go to running workers, until it runs again.
    Resting,
    /// It was asked to leave and still owns groups.
    Leaving,
    /// It owns nothing and has been told to end.
    Retiring,
}

/// One worker as the dispatcher sees it.
pub(crate) struct WorkerQueue {
    id: WorkerId,
    pub(crate) state: WorkerQueueState,
    ends: Ends,
    staged: bool,
    /// It has no core: that it leaves its queue alone is not its fault.
    is_excused: bool,
    /// When it was given a core: it is not to blame for what waited before.
    blamed_from: Nanos,
    /// An old owner has passed the barrier of this epoch, and the worker has not been told yet: it
    /// must be, before the first packet that may belong to a group that it gained.
    owes_attach: Option<Epoch>,
    /// Position in the ring at `sampled_at`, modulo 2^32: once that is consumed, a newer one is
    /// taken.
    sampled_position: u32,
    sampled_at: Nanos,
    /// Empty frames that it has asked for and not been given.
    owed_frames: usize,
}

/// How to reach the worker.
#[expect(
    clippy::large_enum_variant,
    reason = "worker queues are few, and each packet would pay for one more pointer"
)]
enum Ends {
    /// A thread of this process: frames change hands.
    Thread(WorkerQueueEnds),
    /// A worker of an application: packets are copied to and fro.
    App {
        worker_queue: PacketQueue,
        /// How each worker of the application is woken: one thread may wait for several.
        wakes: Arc<[Wake]>,
        /// Who sleeps, and was to be woken when that was too often.
        wake_owed: Option<u32>,
        /// What was seen of it from here.
        counts: CounterWriter,
        counters: CounterReader,
    },
}

/// The rest of the application that worker queues of this kind belong to.
pub(crate) type Side = Option<AppSide>;

impl WorkerQueue {
    pub(crate) fn new(id: WorkerId, ends: WorkerQueueEnds) -> Self {
        Self::over(id, Ends::Thread(ends))
    }

    pub(crate) fn of_app(id: WorkerId, worker_queue: PacketQueue, wakes: Arc<[Wake]>) -> Self {
        let counts = CounterWriter::new();
        let counters = counts.reader();
        Self::over(id, Ends::App { worker_queue, wakes, wake_owed: None, counts, counters })
    }

    fn over(id: WorkerId, ends: Ends) -> Self {
        Self {
            id,
            state: WorkerQueueState::Active,
            ends,
            staged: false,
            is_excused: false,
            blamed_from: Nanos::ZERO,
            owes_attach: None,
            sampled_position: 0,
            sampled_at: Nanos::ZERO,
            owed_frames: 0,
        }
    }

    pub(crate) fn id(&self) -> WorkerId {
        self.id
    }

    /// Whether it is a worker of an application that says that it sleeps.
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(&self.ends, Ends::App { worker_queue, .. } if worker_queue.is_asleep())
    }

    pub(crate) fn is_excused(&self) -> bool {
        self.is_excused
    }

    /// Whether it can be blamed for leaving its queue alone, from now on.
    pub(crate) fn excuse(&mut self, excused: bool, now: Nanos) {
        if std::mem::replace(&mut self.is_excused, excused) && !excused {
            self.blamed_from = now;
        }
    }

    pub(crate) fn counters(&self) -> &CounterReader {
        match &self.ends {
            Ends::Thread(ends) => &ends.counters,
            Ends::App { counters, .. } => counters,
        }
    }

    /// Gives the worker a packet; with the reason, it comes back when it cannot be.
    #[inline]
    pub(crate) fn send(
        &mut self,
        frame: Frame,
        side: &mut Side,
        context: &mut DispatchContext<'_>,
    ) -> Result<(), (Frame, DispatchEvent)> {
        if self.owes_attach.is_some() && !self.pay_attach(side) {
            return Err((frame, DispatchEvent::RingFull));
        }
        match &mut self.ends {
            Ends::Thread(ends) => match ends.to_worker.stage(ToWorker::Packet(frame)) {
                Ok(()) => {}
                Err(ToWorker::Packet(frame)) => return Err((frame, DispatchEvent::RingFull)),
                Err(_) => unreachable!("a ring returns what it was given"),
            },
            Ends::App { worker_queue, counts, .. } => {
                let Some(side) = side else { return Err((frame, DispatchEvent::AppFault)) };
                match side.deliver(worker_queue, &frame, context.now) {
                    Ok(()) => {
                        counts.add(WorkerEvent::Packets, 1);
                        context.pool.give(frame);
                    }
                    Err(why) => return Err((frame, why)),
                }
            }
        }
        self.staged = true;
        Ok(())
    }

    /// Puts a control message into the ring; false when that is full.
    pub(crate) fn control(&mut self, message: ToWorker, side: &mut Side) -> bool {
        let staged = match &mut self.ends {
            Ends::Thread(ends) => ends.to_worker.stage(message).is_ok(),
            Ends::App { worker_queue, .. } => {
                let message = match message {
                    ToWorker::Barrier { ticket, moving } => ToApp::Barrier { ticket, moving },
                    ToWorker::Attach(moving) => ToApp::Attach(moving),
                    ToWorker::Retire => ToApp::Retire,
                    ToWorker::Packet(_) => {
                        unreachable!("frames go by `send` and `pay_frames`")
                    }
                };
                believed(worker_queue.control(message), side).unwrap_or(false)
            }
        };
        self.staged |= staged;
        staged
    }

    pub(crate) fn owe_attach(&mut self, epoch: Epoch) {
        self.owes_attach = Some(epoch);
    }

    /// Tells the worker what it gained, if that is still to be told; false when the ring is full.
    pub(crate) fn pay_attach(&mut self, side: &mut Side) -> bool {
        let Some(epoch) = self.owes_attach else {
            return true;
        };
        if !self.control(ToWorker::Attach(Moving::Epoch(epoch)), side) {
            return false;
        }
        self.owes_attach = None;
        true
    }

    /// The worker asks for that many empty frames.
    pub(crate) fn owe_frames(&mut self, frames: u16) {
        // A worker asks again only when it has what it asked for, so this stays small.
        self.owed_frames += usize::from(frames);
    }

    /// Gives the worker the empty frames that it has asked for, as far as they can be spared; true
    /// when some are still owed.
    pub(crate) fn pay_frames(&mut self, context: &mut DispatchContext<'_>) -> bool {
        let Ends::Thread(ends) = &mut self.ends else { return false };
        let reserve = context.pool.config().frames as usize / RECEIVE_RESERVE;
        while self.owed_frames > 0 && context.pool.free_count() > reserve {
            let Some(mut frame) = context.pool.take() else { break };
            let is_emptied = frame.set_len(0);
            debug_assert!(is_emptied, "every frame can be empty");
            match ends.to_worker.stage(ToWorker::Packet(frame)) {
                Ok(()) => {}
                Err(ToWorker::Packet(frame)) => {
                    context.pool.give(frame);
                    break;
                }
                Err(_) => unreachable!("a ring returns what it was given"),
            }
            self.owed_frames -= 1;
            self.staged = true;
        }
        self.owed_frames > 0
    }

    /// Shows the worker what was staged, and wakes it if it sleeps.
    #[inline]
    pub(crate) fn publish(&mut self, side: &mut Side, now: Nanos) {
        if !self.staged {
            return;
        }
        self.staged = false;
        match &mut self.ends {
            Ends::Thread(ends) => {
                ends.to_worker.publish();
                if ends.doorbell.ring() {
                    (ends.wake)();
                }
            }
            Ends::App { worker_queue, wakes, wake_owed, .. } => {
                worker_queue.publish();
                if let Some(sleeper) = worker_queue.ring() {
                    *wake_owed = Some(sleeper);
                    pay_wake(wakes, wake_owed, side, now);
                }
            }
        }
    }

    /// Wakes the worker now if that was put off; true when it has to wait still.
    pub(crate) fn pay_wake(&mut self, side: &mut Side, now: Nanos) -> bool {
        let Ends::App { wakes, wake_owed, .. } = &mut self.ends else { return false };
        pay_wake(wakes, wake_owed, side, now);
        wake_owed.is_some()
    }

    /// Whether one more packet can be sent for certain.
    pub(crate) fn has_room(&self, side: &Side) -> bool {
        let owed = usize::from(self.owes_attach.is_some());
        match &self.ends {
            Ends::Thread(ends) => ends.to_worker.room() > owed,
            Ends::App { worker_queue, .. } => {
                let buffers = side.as_ref().is_some_and(AppSide::has_buffer);
                buffers && worker_queue.capacity() - worker_queue.queued_seen() > owed
            }
        }
    }

    /// Everything that a dead worker did not complete, oldest first.
    pub(crate) fn into_undone(self, mut inbox: Consumer<ToWorker>) -> Vec<ToWorker> {
        if let Ends::Thread(mut ends) = self.ends {
            ends.to_worker.publish();
        }
        std::iter::from_fn(|| inbox.pop()).collect()
    }

    /// What the worker says next: `budget` messages at most, which is not zero.
    #[inline]
    pub(crate) fn take(
        &mut self,
        side: &mut Side,
        budget: usize,
        context: &mut DispatchContext<'_>,
    ) -> Taken {
        match &mut self.ends {
            Ends::Thread(ends) => match ends.from_worker.take() {
                Some(message) => Taken::Message(message, 1),
                None => Taken::Nothing,
            },
            Ends::App { worker_queue, .. } => match side {
                Some(side) => {
                    side.take(worker_queue, context.pool, context.counters, budget, context.now)
                }
                None => Taken::Nothing,
            },
        }
    }

    pub(crate) fn release_messages(&mut self) {
        match &mut self.ends {
            Ends::Thread(ends) => ends.from_worker.release(),
            Ends::App { worker_queue, .. } => worker_queue.release(),
        }
    }

    pub(crate) fn has_messages(&self) -> bool {
        match &self.ends {
            Ends::Thread(ends) => !ends.from_worker.is_empty(),
            Ends::App { worker_queue, .. } => worker_queue.has_messages(),
        }
    }
}

/// Wakes whoever is to be woken, if that is within the limit now.
fn pay_wake(wakes: &[Wake], owed: &mut Option<u32>, side: &mut Side, now: Nanos) {
    let Some(wake) = owed.and_then(|sleeper| wakes.get(sleeper as usize)) else { return };
    if side.as_mut().is_some_and(|side| side.may_wake(now)) {
        *owed = None;
        wake();
    }
}

/// What an application's ring says, unless it violates the protocol: then the application has to
/// go.
fn believed<T>(said: Result<T, ProtocolViolation>, side: &mut Side) -> Option<T> {
    match said {
        Ok(value) => Some(value),
        Err(violation) => {
            if let Some(side) = side {
                side.report_violation(violation);
            }
            None
        }
    }
}
