//! The workers of one steering: who is there, what they are shown, what they say.

use std::sync::Arc;

use base::{NO_FRAGMENT, Nanos, WorkerId};
use policy::cores::Progress;
use port::Stations;
use shm::ProtocolViolation;
use shm::packets::PacketQueue;
use sys::trace;

use super::{Caller, Steering};
use crate::app::{AppSide, Taken};
use crate::counters::DispatchEvent;
use crate::dispatch_context::DispatchContext;
use crate::message::{FromWorker, ToWorker};
use crate::worker_queue::{Wake, WorkerQueue, WorkerQueueEnds, WorkerQueueState};

impl Steering {
    /// The workers that are there, by ascending id.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, WorkerQueueState, usize)> {
        self.worker_queues
            .iter()
            .flatten()
            .map(|worker_queue| (worker_queue.id(), worker_queue.state, worker_queue.queued()))
    }

    /// Whether a worker of an application says that it sleeps.
    pub fn is_asleep(&self, worker: WorkerId) -> bool {
        self.worker_queues
            .get(worker.index())
            .and_then(Option::as_ref)
            .is_some_and(WorkerQueue::is_asleep)
    }

    /// The counters of a worker.
    pub fn worker_counters(&self, worker: WorkerId) -> Option<&crate::counters::CounterReader> {
        self.worker_queues.get(worker.index())?.as_ref().map(WorkerQueue::counters)
    }

    /// A worker id that is free, if any.
    pub fn free_worker_id(&self) -> Option<WorkerId> {
        self.worker_queues.iter().position(Option::is_none).map(|index| WorkerId(index as u16))
    }

    /// What a worker of this process says with that it has published something.
    pub fn caller(&self, worker: WorkerId) -> Caller {
        self.ready.caller(worker)
    }

    /// A worker has come. Its id must be free.
    pub fn add_worker(&mut self, worker: WorkerId, ends: WorkerQueueEnds) {
        self.admit_worker_queue(WorkerQueue::new(worker, ends));
    }

    /// A worker of the application has come. Its id must be free.
    pub(crate) fn add_app_worker(
        &mut self,
        worker: WorkerId,
        worker_queue: PacketQueue,
        wakes: Arc<[Wake]>,
    ) {
        self.admit_worker_queue(WorkerQueue::of_app(worker, worker_queue, wakes));
    }

    fn admit_worker_queue(&mut self, new: WorkerQueue) {
        let worker = new.id();
        let worker_queue = &mut self.worker_queues[worker.index()];
        assert!(worker_queue.is_none(), "worker {worker} is there already");
        *worker_queue = Some(new);
        trace::worker_added(worker.0);
        self.workers_changed();
    }

    /// The worker is to leave: its groups move first. False when it is not there or leaving.
    pub fn remove_worker(&mut self, worker: WorkerId) -> bool {
        match self.worker_queues.get_mut(worker.index()) {
            Some(Some(worker_queue))
                if matches!(
                    worker_queue.state,
                    WorkerQueueState::Active | WorkerQueueState::Resting
                ) =>
            {
                worker_queue.state = WorkerQueueState::Leaving;
            }
            _ => return false,
        }
        self.workers_changed();
        true
    }

    /// The worker is parked for long, or is to be: its groups go to running workers. False when
    /// there is no other, or it is not there.
    pub fn rest(&mut self, worker: WorkerId) -> bool {
        let is_active = |worker_queue: &&WorkerQueue| {
            worker_queue.state == WorkerQueueState::Active && worker_queue.id() != worker
        };
        if !self.worker_queues.iter().flatten().any(|worker_queue| is_active(&worker_queue)) {
            return false;
        }
        match self.worker_queues.get_mut(worker.index()) {
            Some(Some(worker_queue)) if worker_queue.state == WorkerQueueState::Active => {
                worker_queue.state = WorkerQueueState::Resting
            }
            _ => return false,
        }
        self.workers_changed();
        true
    }

    /// A resting worker runs again, and gets its groups back.
    pub fn rouse(&mut self, worker: WorkerId) {
        if let Some(Some(worker_queue)) = self.worker_queues.get_mut(worker.index())
            && worker_queue.state == WorkerQueueState::Resting
        {
            worker_queue.state = WorkerQueueState::Active;
            self.workers_changed();
        }
    }

    /// Whether a worker rests: it may have been made active meanwhile, because no other one was
    /// left.
    pub(crate) fn is_resting(&self, worker: WorkerId) -> bool {
        let worker_queue = self.worker_queues.get(worker.index()).and_then(Option::as_ref);
        worker_queue.is_some_and(|worker_queue| worker_queue.state == WorkerQueueState::Resting)
    }

    /// Whether a worker has no core, and so cannot be blamed for leaving its queue alone. What
    /// waited while it had none is not held against it later.
    pub(crate) fn excuse(&mut self, worker: WorkerId, excused: bool, now: Nanos) {
        if let Some(Some(worker_queue)) = self.worker_queues.get_mut(worker.index()) {
            worker_queue.excuse(excused, now);
        }
        let all = self.worker_queues.iter().flatten().all(WorkerQueue::is_excused);
        if let Some(side) = &mut self.side {
            side.excuse(all);
        }
    }

    /// How far a worker's queue has come, as its own word says: what an application's says is
    /// input.
    #[inline]
    pub fn progress_of(&self, worker: WorkerId) -> Progress {
        let worker_queue = self.worker_queues.get(worker.index()).and_then(Option::as_ref);
        worker_queue.map(WorkerQueue::progress).unwrap_or_default()
    }

    /// A leaving worker that still owns groups may stay after all. False when it may not.
    pub fn keep_worker(&mut self, worker: WorkerId) -> bool {
        match self.worker_queues.get_mut(worker.index()) {
            Some(Some(worker_queue)) if worker_queue.state == WorkerQueueState::Leaving => {
                worker_queue.state = WorkerQueueState::Active
            }
            _ => return false,
        }
        self.workers_changed();
        true
    }

    pub(super) fn workers_changed(&mut self) {
        // The groups need an owner: when no other is left, resting workers own them.
        if !self
            .worker_queues
            .iter()
            .flatten()
            .any(|worker_queue| worker_queue.state == WorkerQueueState::Active)
        {
            for worker_queue in self.worker_queues.iter_mut().flatten() {
                if worker_queue.state == WorkerQueueState::Resting {
                    worker_queue.state = WorkerQueueState::Active;
                }
            }
        }
        let worker_queues = self.worker_queues.iter().flatten();
        let active =
            worker_queues.filter(|worker_queue| worker_queue.state == WorkerQueueState::Active);
        let active: Vec<WorkerId> = active.map(WorkerQueue::id).collect();
        self.control.set_workers(&active);
        self.has_undone = true;
    }

    /// Shows the workers what was sent, and wakes sleepers.
    #[inline]
    pub(crate) fn publish(&mut self, now: Nanos) {
        let Self { worker_queues, staged, side, has_undone, .. } = self;
        staged.drain(|index| {
            *has_undone = true;
            if let Some(Some(worker_queue)) = worker_queues.get_mut(index) {
                worker_queue.publish(side, now);
            }
        });
    }

    /// Takes up to `budget` messages of the workers that have any and gives packets to `frames`.
    /// They take turns, so that none is always last. Returns how many it took.
    #[inline]
    pub(crate) fn drain(
        &mut self,
        context: &mut DispatchContext<'_>,
        budget: usize,
        mut frames: impl FnMut(FromWorker, &mut DispatchContext<'_>),
    ) -> usize {
        let mut taken = 0;
        for _ in 0..self.ready.gather(context.now) {
            if taken >= budget {
                break;
            }
            let Some(turn) = self.ready.next_turn() else { break };
            let (index, credit) = (turn.queue as usize, turn.credit as usize);
            let used =
                self.drain_worker_queue(index, context, credit.min(budget - taken), &mut frames);
            taken += used;
            self.ready.served(turn, used, self.worker_queues[index].as_ref(), context.now);
        }
        taken
    }

    /// Takes up to `budget` messages of one worker.
    pub(crate) fn drain_worker_queue(
        &mut self,
        index: usize,
        context: &mut DispatchContext<'_>,
        budget: usize,
        frames: &mut impl FnMut(FromWorker, &mut DispatchContext<'_>),
    ) -> usize {
        let mut taken = 0;
        // The frames of one packet stay together, whatever the budget.
        let mut is_within = false;
        while taken < budget || is_within {
            let Some(worker_queue) = &mut self.worker_queues[index] else {
                return taken;
            };
            let left = budget.saturating_sub(taken).max(1);
            let message = match worker_queue.take(&mut self.side, left, context) {
                Taken::Message(message, messages) => {
                    taken += messages;
                    message
                }
                Taken::Handled(messages) => {
                    taken += messages;
                    continue;
                }
                Taken::Nothing => break,
            };
            match message {
                FromWorker::Passed(ticket) => self.passed(ticket, context),
                FromWorker::Wants(frames) => {
                    worker_queue.owe_frames(frames);
                    self.owes_frames = true;
                }
                FromWorker::Retired if worker_queue.state != WorkerQueueState::Retiring => {
                    // Only an application says what it was not asked.
                    if let Some(side) = &mut self.side {
                        side.report_violation(ProtocolViolation::Message);
                    }
                    return taken;
                }
                FromWorker::Retired => {
                    self.worker_queues[index] = None;
                    self.retired.push(WorkerId(index as u16));
                    trace::worker_retired(index as u16);
                }
                packet => {
                    if let FromWorker::Packet(frame) = &packet {
                        is_within = frame.meta().transmit
                            && frame.meta().next_fragment != NO_FRAGMENT
                            && self.side.is_none();
                    }
                    frames(packet, context);
                }
            }
        }
        if let Some(worker_queue) = &mut self.worker_queues[index] {
            worker_queue.release_messages();
        }
        taken
    }

    /// Workers that have ended as asked since the last call. Ask before an id is used again.
    pub fn take_retired(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.retired)
    }

    /// Whether no worker says that it has something to say.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.ready.is_quiet()
    }

    /// The host is about to sleep: every worker is to say when it has something.
    pub(crate) fn arm(&mut self) {
        self.ready.arm_all(&self.worker_queues);
    }

    /// Whether a worker has something to say: looks at each.
    pub fn has_messages(&self) -> bool {
        self.worker_queues.iter().flatten().any(WorkerQueue::has_messages)
    }

    /// The link addresses of each port, with which the application's packets leave.
    pub(crate) fn follow(&mut self, stations: Vec<Arc<Stations>>) {
        if let Some(side) = &mut self.side {
            side.follow(stations);
        }
    }

    /// The application whose workers these are.
    pub(crate) fn app(&self) -> Option<&AppSide> {
        self.side.as_ref()
    }

    /// Tells every worker what it gained, if that is still to be told; false when a ring is full.
    pub(super) fn attaches_paid(&mut self) -> bool {
        self.worker_queues.iter_mut().flatten().all(|worker_queue| {
            self.staged.insert(worker_queue.id().index());
            worker_queue.pay_attach(&mut self.side)
        })
    }

    /// Gives workers the empty frames that they have asked for, as far as there are enough.
    pub(super) fn pay_frames(&mut self, context: &mut DispatchContext<'_>) {
        if !std::mem::take(&mut self.owes_frames) {
            return;
        }
        for worker_queue in self.worker_queues.iter_mut().flatten() {
            self.owes_frames |= worker_queue.pay_frames(context);
            worker_queue.publish(&mut self.side, context.now);
        }
    }

    /// Wakes workers whose wake-up was put off, as far as that is within the limit now.
    pub(super) fn pay_wakes(&mut self, context: &mut DispatchContext<'_>) {
        if !self.side.as_ref().is_some_and(|side| side.wake_owed) {
            return;
        }
        let mut owed = false;
        for worker_queue in self.worker_queues.iter_mut().flatten() {
            owed |= worker_queue.pay_wake(&mut self.side, context.now);
        }
        context.counters.add(DispatchEvent::WakesDeferred, 1);
        if let Some(side) = &mut self.side {
            side.wake_owed = owed;
        }
    }

    pub(super) fn retire_drained(&mut self, now: Nanos) {
        if !self.migrate.is_quiet() || !self.evacuation.is_empty() {
            return;
        }
        for worker_queue in self.worker_queues.iter_mut().flatten() {
            if worker_queue.state == WorkerQueueState::Leaving
                && self.control.is_drained(worker_queue.id())
                && worker_queue.control(ToWorker::Retire, &mut self.side)
            {
                worker_queue.state = WorkerQueueState::Retiring;
                worker_queue.publish(&mut self.side, now);
            }
        }
    }
}
