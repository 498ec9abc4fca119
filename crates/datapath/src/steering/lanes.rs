//! The workers of one steering: who is there, what they are shown, what they say.

use std::sync::Arc;

use base::{NO_FRAGMENT, Nanos, WorkerId};
use policy::cores::Progress;
use shm::ProtocolViolation;
use shm::app::AppLane;
use sys::trace;

use super::{Caller, Steering};
use crate::app::{AppSide, Taken};
use crate::counters::DispatchEvent;
use crate::ground::Ground;
use crate::lane::{Lane, LaneEnds, LaneState, Wake};
use crate::message::{FromWorker, ToWorker};

impl Steering {
    /// The workers that are there, by ascending id.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, LaneState, usize)> {
        self.lanes.iter().flatten().map(|lane| (lane.id(), lane.state, lane.queued()))
    }

    /// Whether a worker of an application says that it sleeps.
    pub fn is_asleep(&self, worker: WorkerId) -> bool {
        self.lanes.get(worker.index()).and_then(Option::as_ref).is_some_and(Lane::is_asleep)
    }

    /// The counters of a worker.
    pub fn worker_counters(&self, worker: WorkerId) -> Option<&crate::counters::CounterReader> {
        self.lanes.get(worker.index())?.as_ref().map(Lane::counters)
    }

    /// A worker id that is free, if any.
    pub fn free_worker_id(&self) -> Option<WorkerId> {
        self.lanes.iter().position(Option::is_none).map(|index| WorkerId(index as u16))
    }

    /// What a worker of this process says with that it has published something.
    pub fn caller(&self, worker: WorkerId) -> Caller {
        self.ready.caller(worker)
    }

    /// A worker has come. Its id must be free.
    pub fn add_worker(&mut self, worker: WorkerId, ends: LaneEnds) {
        self.admit_lane(Lane::new(worker, ends));
    }

    /// A worker of the application has come. Its id must be free.
    pub(crate) fn add_app_worker(&mut self, worker: WorkerId, lane: AppLane, wakes: Arc<[Wake]>) {
        self.admit_lane(Lane::of_app(worker, lane, wakes));
    }

    fn admit_lane(&mut self, new: Lane) {
        let worker = new.id();
        let lane = &mut self.lanes[worker.index()];
        assert!(lane.is_none(), "worker {worker} is there already");
        *lane = Some(new);
        trace::worker_added(worker.0);
        self.workers_changed();
    }

    /// The worker is to leave: its groups move first. False when it is not there or leaving.
    pub fn remove_worker(&mut self, worker: WorkerId) -> bool {
        match self.lanes.get_mut(worker.index()) {
            Some(Some(lane)) if matches!(lane.state, LaneState::Active | LaneState::Resting) => {
                lane.state = LaneState::Leaving;
            }
            _ => return false,
        }
        self.workers_changed();
        true
    }

    /// The worker is parked for long, or is to be: its groups go to those who run. False when there
    /// is no other, or it is not there.
    pub fn rest(&mut self, worker: WorkerId) -> bool {
        let is_active = |lane: &&Lane| lane.state == LaneState::Active && lane.id() != worker;
        if !self.lanes.iter().flatten().any(|lane| is_active(&lane)) {
            return false;
        }
        match self.lanes.get_mut(worker.index()) {
            Some(Some(lane)) if lane.state == LaneState::Active => lane.state = LaneState::Resting,
            _ => return false,
        }
        self.workers_changed();
        true
    }

    /// A resting worker runs again, and gets its groups back.
    pub fn rouse(&mut self, worker: WorkerId) {
        if let Some(Some(lane)) = self.lanes.get_mut(worker.index())
            && lane.state == LaneState::Resting
        {
            lane.state = LaneState::Active;
            self.workers_changed();
        }
    }

    /// Whether a worker rests: it may have been made active meanwhile, because no other one was left.
    pub(crate) fn is_resting(&self, worker: WorkerId) -> bool {
        let lane = self.lanes.get(worker.index()).and_then(Option::as_ref);
        lane.is_some_and(|lane| lane.state == LaneState::Resting)
    }

    /// Whether a worker has no core, and so cannot be blamed for leaving its queue alone. What waited
    /// while it had none is not held against it later.
    pub(crate) fn excuse(&mut self, worker: WorkerId, excused: bool, now: Nanos) {
        if let Some(Some(lane)) = self.lanes.get_mut(worker.index()) {
            lane.excuse(excused, now);
        }
        let all = self.lanes.iter().flatten().all(Lane::is_excused);
        if let Some(side) = &mut self.side {
            side.excuse(all);
        }
    }

    /// How far a worker's queue has come, as its own word says: what an application's says is input.
    #[inline]
    pub fn progress_of(&self, worker: WorkerId) -> Progress {
        let lane = self.lanes.get(worker.index()).and_then(Option::as_ref);
        lane.map(Lane::progress).unwrap_or_default()
    }

    /// A leaving worker that still owns groups may stay after all. False when it may not.
    pub fn keep_worker(&mut self, worker: WorkerId) -> bool {
        match self.lanes.get_mut(worker.index()) {
            Some(Some(lane)) if lane.state == LaneState::Leaving => lane.state = LaneState::Active,
            _ => return false,
        }
        self.workers_changed();
        true
    }

    pub(super) fn workers_changed(&mut self) {
        // Somebody must own the groups: when nobody else is left, those who rest do.
        if !self.lanes.iter().flatten().any(|lane| lane.state == LaneState::Active) {
            for lane in self.lanes.iter_mut().flatten() {
                if lane.state == LaneState::Resting {
                    lane.state = LaneState::Active;
                }
            }
        }
        let lanes = self.lanes.iter().flatten();
        let active = lanes.filter(|lane| lane.state == LaneState::Active);
        let active: Vec<WorkerId> = active.map(Lane::id).collect();
        self.control.set_workers(&active);
        self.has_undone = true;
    }

    /// Shows the workers what was sent, and wakes sleepers.
    #[inline]
    pub(crate) fn publish(&mut self, now: Nanos) {
        let Self { lanes, staged, side, has_undone, .. } = self;
        staged.drain(|index| {
            *has_undone = true;
            if let Some(Some(lane)) = lanes.get_mut(index) {
                lane.publish(side, now);
            }
        });
    }

    /// Takes up to `budget` messages of the workers that have any and gives packets to `frames`.
    /// They take turns, so that none is always last. Returns how many it took.
    #[inline]
    pub(crate) fn drain(
        &mut self,
        ground: &mut Ground<'_>,
        budget: usize,
        mut frames: impl FnMut(FromWorker, &mut Ground<'_>),
    ) -> usize {
        let mut taken = 0;
        for _ in 0..self.ready.gather(ground.now) {
            if taken >= budget {
                break;
            }
            let Some(turn) = self.ready.next_turn() else { break };
            let (index, credit) = (turn.queue as usize, turn.credit as usize);
            let used = self.drain_lane(index, ground, credit.min(budget - taken), &mut frames);
            taken += used;
            self.ready.served(turn, used, self.lanes[index].as_ref(), ground.now);
        }
        taken
    }

    /// Takes up to `budget` messages of one worker.
    pub(crate) fn drain_lane(
        &mut self,
        index: usize,
        ground: &mut Ground<'_>,
        budget: usize,
        frames: &mut impl FnMut(FromWorker, &mut Ground<'_>),
    ) -> usize {
        let mut taken = 0;
        // The frames of one packet stay together, whatever the budget.
        let mut is_within = false;
        while taken < budget || is_within {
            let Some(lane) = &mut self.lanes[index] else {
                return taken;
            };
            let left = budget.saturating_sub(taken).max(1);
            let message = match lane.take(&mut self.side, left, ground) {
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
                FromWorker::Passed(ticket) => self.passed(ticket, ground),
                FromWorker::Wants(frames) => {
                    lane.owe_frames(frames);
                    self.owes_frames = true;
                }
                FromWorker::Retired if lane.state != LaneState::Retiring => {
                    // Only an application says what it was not asked.
                    if let Some(side) = &mut self.side {
                        side.report_violation(ProtocolViolation::Message);
                    }
                    return taken;
                }
                FromWorker::Retired => {
                    self.lanes[index] = None;
                    self.retired.push(WorkerId(index as u16));
                    trace::worker_retired(index as u16);
                }
                packet => {
                    if let FromWorker::Packet(frame) = &packet {
                        is_within = frame.meta().transmit
                            && frame.meta().next_fragment != NO_FRAGMENT
                            && self.side.is_none();
                    }
                    frames(packet, ground);
                }
            }
        }
        if let Some(lane) = &mut self.lanes[index] {
            lane.release_messages();
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
        self.ready.arm_all(&self.lanes);
    }

    /// Whether a worker has something to say: looks at each.
    pub fn has_messages(&self) -> bool {
        self.lanes.iter().flatten().any(Lane::has_messages)
    }

    /// The application whose workers these are.
    pub(crate) fn app(&self) -> Option<&AppSide> {
        self.side.as_ref()
    }

    /// Tells every worker what it gained, if that is still to be told; false when a ring is full.
    pub(super) fn attaches_paid(&mut self) -> bool {
        self.lanes.iter_mut().flatten().all(|lane| {
            self.staged.insert(lane.id().index());
            lane.pay_attach(&mut self.side)
        })
    }

    /// Gives workers the empty frames that they have asked for, as far as there are enough.
    pub(super) fn pay_frames(&mut self, ground: &mut Ground<'_>) {
        if !std::mem::take(&mut self.owes_frames) {
            return;
        }
        for lane in self.lanes.iter_mut().flatten() {
            self.owes_frames |= lane.pay_frames(ground);
            lane.publish(&mut self.side, ground.now);
        }
    }

    /// Wakes workers whose wake-up was put off, as far as that is within the limit now.
    pub(super) fn pay_wakes(&mut self, ground: &mut Ground<'_>) {
        if !self.side.as_ref().is_some_and(|side| side.wake_owed) {
            return;
        }
        let mut owed = false;
        for lane in self.lanes.iter_mut().flatten() {
            owed |= lane.pay_wake(&mut self.side, ground.now);
        }
        ground.counters.add(DispatchEvent::WakesDeferred, 1);
        if let Some(side) = &mut self.side {
            side.wake_owed = owed;
        }
    }

    pub(super) fn retire_drained(&mut self, now: Nanos) {
        if !self.migrate.is_quiet() || !self.evacuation.is_empty() {
            return;
        }
        for lane in self.lanes.iter_mut().flatten() {
            if lane.state == LaneState::Leaving
                && self.control.is_drained(lane.id())
                && lane.control(ToWorker::Retire, &mut self.side)
            {
                lane.state = LaneState::Retiring;
                lane.publish(&mut self.side, now);
            }
        }
    }
}
