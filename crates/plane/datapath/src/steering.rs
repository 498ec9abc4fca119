//! From a classified packet to its worker: table, hand-overs, policy and worker queues in one
//! place.
//!
//! Per packet: one table read and one ring write, as long as the group is plainly owned and
//! nothing moves. Everything else (a first packet, a hand-over, a dead owner) leaves that path
//! through one branch. This file carries out; deciding is `policy`'s.

mod config;
mod death;
mod handover;
mod pins;
mod ready_worker_queues;
mod tick;
mod worker_queue_set;
mod worker_queues;

use base::{FlowGroup, FlowHash, Nanos, WorkerId};
use policy::{Control, CoreSample, Entry, LoadSample, Overrides, OwnerTable, Placement, Plan};
use shm::{Frame, Handovers};

use crate::app::AppSide;
use crate::counters::DispatchEvent;
use crate::dispatch_context::DispatchContext;
use crate::flow_id::FlowId;
use crate::group_loads::GroupLoads;
use crate::hold::HoldList;
use crate::migrate::{Admission, Migrate};
use crate::owners::{Mirror, Owners};
use crate::worker_queue::{Side, WorkerQueue, WorkerQueueState};

pub use config::SteeringConfig;
pub use pins::PinError;
pub use ready_worker_queues::Caller;

use ready_worker_queues::ReadyWorkerQueues;
use worker_queue_set::WorkerQueueSet;

/// Applications' hand-overs hold packets while at least this part of all frames is free.
const HELD_FREE: usize = 8;

/// Tables, hand-overs, policy and worker queues.
pub struct Steering {
    config: SteeringConfig,
    live: OwnerTable,
    shadow: OwnerTable,
    control: Control,
    migrate: Migrate,
    /// By worker id.
    worker_queues: Vec<Option<WorkerQueue>>,
    /// Those of them that have something to say.
    ready: ReadyWorkerQueues,
    /// Those of them that something was put into and that were not shown it.
    staged: WorkerQueueSet,
    /// The application whose workers these are; `None`: the dispatcher's own.
    side: Side,
    loads: GroupLoads,
    overrides: Overrides,
    unpinning: Vec<(u64, FlowHash)>,
    flow_id: FlowId,
    /// What dead workers left undone and what must stay behind it. While this is not empty, the
    /// moving flag on a group without a hand-over means: its packets queue here.
    evacuation: HoldList,
    plan: Plan,
    core: CoreSample,
    load: LoadSample,
    /// Load samples taken so far.
    loads_taken: u64,
    next_tick: Nanos,
    next_quiet_tick: Nanos,
    /// Something was sent to a worker, or was still in its ring, at the last look or since.
    has_undone: bool,
    next_load: Nanos,
    retired: Vec<WorkerId>,
    /// Some worker has asked for empty frames and not got all of them.
    owes_frames: bool,
    /// The table as workers see it, if any of them has to.
    owners: Option<Mirror>,
}

impl Steering {
    /// Tables of the configured size, all unowned, steered by `control`.
    ///
    /// # Errors
    /// The number of groups is not possible.
    /// `flow_id` finds a packet's flow again when a dead worker has left it: the flow may have
    /// been pinned or unpinned since it was steered.
    pub fn new(
        config: SteeringConfig,
        flow_id: FlowId,
        control: impl FnOnce(usize) -> Control,
    ) -> Result<Self, policy::GroupCountError> {
        let workers_max = usize::from(config.workers_max);
        Self::over(config, Migrate::new(config.migrate, workers_max), None, flow_id, control)
    }

    /// The same for the workers of an application.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(crate) fn for_app(
        config: SteeringConfig,
        flow_id: FlowId,
        control: impl FnOnce(usize) -> Control,
        side: AppSide,
    ) -> Result<Self, policy::GroupCountError> {
        let words = side.server().handovers();
        let migrate = Migrate::over(config.migrate, usize::from(config.workers_max), words);
        Self::over(config, migrate, Some(side), flow_id, control)
    }

    fn over(
        config: SteeringConfig,
        migrate: Migrate,
        side: Side,
        flow_id: FlowId,
        control: impl FnOnce(usize) -> Control,
    ) -> Result<Self, policy::GroupCountError> {
        let overrides = Overrides::new(config.overrides, config.groups);
        let live = OwnerTable::new(config.groups, overrides.slots())?;
        let workers_max = usize::from(config.workers_max);
        Ok(Self {
            config,
            shadow: live.clone(),
            control: control(live.len()),
            migrate,
            worker_queues: (0..workers_max).map(|_| None).collect(),
            ready: match &side {
                Some(side) => ReadyWorkerQueues::of_app(side.server().ready()),
                None => ReadyWorkerQueues::own(u32::from(config.workers_max)),
            },
            staged: WorkerQueueSet::new(workers_max),
            side,
            loads: GroupLoads::new(live.len()),
            live,
            overrides,
            unpinning: Vec::new(),
            flow_id,
            evacuation: HoldList::EMPTY,
            plan: Plan::default(),
            core: CoreSample::default(),
            load: LoadSample::default(),
            loads_taken: 0,
            next_tick: Nanos::ZERO,
            next_quiet_tick: Nanos::ZERO,
            has_undone: true,
            next_load: Nanos::ZERO,
            retired: Vec::new(),
            owes_frames: false,
            owners: None,
        })
    }

    /// The owner table as workers may read it when they are told that it has changed, for those
    /// whose flows need care without packets: timers.
    pub fn share_owners(&mut self) -> Owners {
        let (groups, virtual_groups) = (self.live.groups(), self.overrides.slots());
        let mirror = self.owners.get_or_insert_with(|| Mirror::new(groups, virtual_groups));
        mirror.owners()
    }

    /// The words that decide between detach and abort, for a new worker.
    pub fn handovers(&self) -> Handovers {
        self.migrate.handovers()
    }

    /// The policy's loop, to ask and to instruct.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The policy's loop with the table that its requests are checked against.
    pub fn control_mut(&mut self) -> (&mut Control, &OwnerTable) {
        (&mut self.control, &self.live)
    }

    /// Everything that the loop needs to be written down: itself, the table in force, the other.
    pub fn control_and_tables(&mut self) -> (&mut Control, &OwnerTable, &OwnerTable) {
        (&mut self.control, &self.live, &self.shadow)
    }

    /// What the policy has seen last: the workers, and a slice of the groups with its number.
    pub fn samples(&self) -> (&CoreSample, &LoadSample, u64) {
        (&self.core, &self.load, self.loads_taken)
    }

    /// The owner table in force.
    pub fn table(&self) -> &OwnerTable {
        &self.live
    }

    /// Packets that wait for hand-overs.
    pub fn held(&self) -> usize {
        self.migrate.hold.held()
    }

    /// Whether no hand-over is under way and none is wanted.
    pub fn is_settled(&self) -> bool {
        self.migrate.is_quiet() && self.evacuation.is_empty() && self.control.is_settled()
    }

    #[cfg(test)]
    pub(crate) fn describe(&self) -> String {
        let slots: Vec<_> =
            self.migrate.slots_in_use().map(|slot| (slot, self.migrate.slot(slot))).collect();
        format!(
            "settled {} evac {:?} worker queues {:?} slots {slots:?}",
            self.control.is_settled(),
            self.evacuation,
            self.workers().collect::<Vec<_>>()
        )
    }

    /// Tables published so far.
    pub fn epoch(&self) -> base::Epoch {
        self.migrate.epoch()
    }

    /// The group that steers a flow: the pinned flow's own, or the hashed one.
    #[inline]
    pub(crate) fn group_of(&self, hash: FlowHash, flow: impl FnOnce() -> u64) -> FlowGroup {
        if !self.overrides.is_empty()
            && let Some(group) = self.overrides.find(flow())
        {
            return group;
        }
        self.live.group_of(hash)
    }

    /// Counts a packet of `group` and reads its owner. The two tables are megabytes and this is
    /// where they miss, so it is done for a whole batch before any packet is sent: the misses
    /// then overlap (12 Mpps became 19 when it was taken out of `steer`).
    #[inline]
    pub(crate) fn look_up(&mut self, group: FlowGroup, now: Nanos) -> Entry {
        self.loads.note(group, now);
        self.live.entry(group)
    }

    /// Sends a packet on its way. `frame.meta().group` says whose it is, and `entry` is what
    /// [`Self::look_up`] found: while nothing moves, a plain owner stays what it was.
    #[inline]
    pub(crate) fn steer(&mut self, frame: Frame, entry: Entry, context: &mut DispatchContext<'_>) {
        let group = frame.meta().group;
        if self.migrate.is_quiet()
            && let Some(worker) = entry.plain()
            && let Some(Some(worker_queue)) = self.worker_queues.get_mut(worker.index())
            && !self.control.shares_queue()
        {
            self.staged.insert(worker.index());
            match worker_queue.send(frame, &mut self.side, context) {
                Ok(()) => context.counters.add(DispatchEvent::Dispatched, 1),
                Err((frame, why)) => context.drop(frame, why),
            }
            return;
        }
        self.steer_slow(frame, group, context);
    }

    #[cold]
    fn steer_slow(&mut self, frame: Frame, group: FlowGroup, context: &mut DispatchContext<'_>) {
        if self.control.shares_queue() && self.migrate.is_quiet() {
            return self.steer_shared(frame, context);
        }
        match self.migrate.admit(group, &self.live, &self.shadow) {
            Admission::Send(worker) => self.send_or_drop(frame, worker, context),
            Admission::Hold(slot) => self.hold(frame, slot, context),
            Admission::Fence => self.fence(frame, context),
            Admission::Free => self.deliver(frame, group, context),
        }
    }

    /// Scale-up: the shortest queue, whoever's it is.
    fn steer_shared(&mut self, frame: Frame, context: &mut DispatchContext<'_>) {
        let worker_queues = self.worker_queues.iter_mut().flatten();
        let active =
            worker_queues.filter(|worker_queue| worker_queue.state == WorkerQueueState::Active);
        let Some(worker_queue) = active.min_by_key(|worker_queue| worker_queue.queued()) else {
            return context.drop(frame, DispatchEvent::NoWorker);
        };
        self.staged.insert(worker_queue.id().index());
        match worker_queue.send(frame, &mut self.side, context) {
            Ok(()) => context.counters.add(DispatchEvent::Dispatched, 1),
            Err((frame, why)) => context.drop(frame, why),
        }
    }

    /// The packet of a group that no hand-over concerns: to its owner, or to a new one.
    fn deliver(&mut self, frame: Frame, group: FlowGroup, context: &mut DispatchContext<'_>) {
        if self.evacuation.is_empty() {
            let entry = self.live.entry(group);
            if entry.is_moving() {
                // The flag of an evacuation that is over.
                self.control.write(group, entry.with_moving(false), &mut self.live);
            }
        }
        let entry = self.live.entry(group);
        if entry.is_moving() {
            return self.evacuate(frame, context);
        }
        if let Some(owner) = entry.plain()
            && self.worker_queues[owner.index()].is_some()
        {
            return self.send_or_drop(frame, owner, context);
        }
        match self.control.place(group, &mut self.live, &mut self.shadow, context.now) {
            None => context.drop(frame, DispatchEvent::NoWorker),
            Some(Placement::Now(worker)) if self.evacuation.is_empty() => {
                self.send_or_drop(frame, worker, context);
            }
            Some(Placement::Now(worker)) => {
                // Perhaps something older of this group waits there.
                self.control.write(
                    group,
                    Entry::owned_by(worker).with_moving(true),
                    &mut self.live,
                );
                self.evacuate(frame, context);
            }
            Some(Placement::Move(asked)) => {
                if self.begin_move(asked, context) {
                    let slot = self.migrate.single_of(group);
                    let slot = slot.expect("the move has just begun");
                    self.hold(frame, slot, context);
                } else {
                    self.send_or_drop(frame, asked.from, context);
                }
            }
        }
    }

    fn send_or_drop(&mut self, frame: Frame, worker: WorkerId, context: &mut DispatchContext<'_>) {
        self.staged.insert(worker.index());
        let sent = match &mut self.worker_queues[worker.index()] {
            Some(worker_queue) => worker_queue.send(frame, &mut self.side, context),
            None => return context.drop(frame, DispatchEvent::NoWorker),
        };
        match sent {
            Ok(()) => context.counters.add(DispatchEvent::Dispatched, 1),
            Err((frame, why)) => context.drop(frame, why),
        }
    }

    /// Whether one more packet may wait here. What applications leave waiting are the frames of
    /// everybody: they stop when those run short.
    fn may_hold(&self, context: &DispatchContext<'_>) -> bool {
        let pool = &context.pool;
        self.side.is_none() || pool.free_count() >= pool.config().frames as usize / HELD_FREE
    }

    fn hold(&mut self, frame: Frame, slot: usize, context: &mut DispatchContext<'_>) {
        if !self.may_hold(context) {
            return context.drop(frame, DispatchEvent::HoldOverflow);
        }
        let (hold, list) = self.migrate.held(slot);
        match hold.push_back(list, frame) {
            Ok(()) => context.counters.add(DispatchEvent::Held, 1),
            Err(frame) => context.drop(frame, DispatchEvent::HoldOverflow),
        }
    }

    /// The next moment at which something is due although nothing arrives. Looking at the load of
    /// groups is not: without packets there is none.
    pub(crate) fn next_deadline(&self) -> Nanos {
        let wake = self.side.as_ref().map_or(Nanos::FAR_FUTURE, AppSide::next_deadline);
        let wake = wake.min(self.ready.next_deadline());
        if self.is_settled() && !self.owes_frames {
            wake
        } else {
            wake.min(self.next_tick).min(self.migrate.next_deadline())
        }
    }

    /// Everything that is held goes home: the end.
    pub(crate) fn close(&mut self, context: &mut DispatchContext<'_>) {
        self.migrate.hold.drain(|frame| context.drop(frame, DispatchEvent::AppFault));
    }
}
