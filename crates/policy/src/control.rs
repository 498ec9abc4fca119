//! The whole control loop: samples to plan, for any policy.
//!
//! The shell owns the two tables and lends them; this loop owns everything that is remembered
//! about groups: homes, counts, pins, the rewrite under way. The contract, in the order of events:
//! - [`Control::place`] when a packet finds no plain owner and no hand-over; it writes the tables.
//!   When it answers [`Placement::Move`], the shell starts that hand-over or calls
//!   [`Control::refused`].
//! - [`Control::tick`] at control rate. Each move of the plan is answered, sooner or later, by
//!   exactly one of [`Control::moved`], [`Control::aborted`] and [`Control::refused`].
//! - After a plan with `publish` the shell swaps the tables (the shadow becomes live, the old live
//!   table becomes the shadow) and calls [`Control::epoch_finished`] when every old owner has passed
//!   its mark. In between it may revert what a worker did not give up, by [`Control::revert`].
//!   Until then nothing here writes the shadow and no move is planned.
//! - Changes of workers, policy, table and pins are requests; a later tick acts on them.
//!
//! Every call does bounded work: at most [`GROUPS_PER_STEP`] groups.

use base::{FlowGroup, Nanos, WorkerId};

use crate::plan::{Move, Plan};
use crate::refused::{PINS_MAX, Refused};
use crate::rewrite::{Rewrite, Source};
use crate::sample::{CoreSample, GROUPS_PER_STEP, LoadSample};
use crate::steer::{Change, GroupState, Steer, Workers};
use crate::table::{Entry, OwnerTable};

/// Settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlConfig {
    /// A group without a packet for this long may be placed anew.
    pub idle_timeout: Nanos,
    /// Wait this long before asking again for what was aborted.
    pub retry_after: Nanos,
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self { idle_timeout: Nanos::from_secs(10), retry_after: Nanos::from_millis(20) }
    }
}

/// Where a group's packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To this worker, now; the tables say so already.
    Now(WorkerId),
    /// The group had an owner and is better off with another: hand it over first.
    Move(Move),
}

/// Moves that one tick asks for to restore pins, at most.
const PIN_MOVES_PER_TICK: usize = 16;

/// The control loop of one owner table.
pub struct Control {
    config: ControlConfig,
    steer: Box<dyn Steer>,
    pub(crate) workers: Workers,
    /// By group: who had it before it was driven away, or whoever it was last given to.
    homes: Vec<Entry>,
    /// By worker id: entries of the live table that name the worker.
    owned: Vec<u32>,
    /// Ascending by group.
    pins: Vec<(FlowGroup, WorkerId)>,
    /// Where the next look for displaced pins starts.
    pin_cursor: usize,
    rewrite: Option<Rewrite>,
    /// A rewrite that must wait: for moves to end, for an epoch to finish, for `retry_at`.
    wanted: Option<Source>,
    retry_at: Nanos,
    moves_in_flight: usize,
    publishing: bool,
    /// The loaded table that is being published, to be tried again if a worker kept its groups.
    published: Option<Source>,
    /// Every worker takes any packet until the next table is published, whatever the policy.
    leaving_shared: bool,
    /// Workers that ended without handing anything over, until their id is used again.
    gone: Vec<WorkerId>,
}

impl Control {
    /// A loop over a table of `groups` groups, virtual ones included, with no worker yet.
    pub fn new(config: ControlConfig, steer: Box<dyn Steer>, groups: usize) -> Self {
        Self {
            config,
            steer,
            workers: Workers::default(),
            homes: vec![Entry::UNOWNED; groups],
            owned: Vec::new(),
            pins: Vec::new(),
            pin_cursor: 0,
            rewrite: None,
            wanted: None,
            retry_at: Nanos::ZERO,
            moves_in_flight: 0,
            publishing: false,
            published: None,
            leaving_shared: false,
            gone: Vec::new(),
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> &'static str {
        self.steer.name()
    }

    /// Whether any worker may take any packet.
    #[inline]
    pub fn shares_queue(&self) -> bool {
        self.leaving_shared || self.steer.shares_queue()
    }

    /// The workers that may be given groups.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Entries of the live table that name the worker.
    pub fn owned(&self, worker: WorkerId) -> u32 {
        self.owned.get(worker.index()).copied().unwrap_or(0)
    }

    /// Whether nothing is asked for, under way or waiting to be tried again.
    pub fn is_settled(&self) -> bool {
        self.rewrite.is_none()
            && self.wanted.is_none()
            && !self.publishing
            && self.moves_in_flight == 0
    }

    /// Whether a worker that was asked to leave may go: it owns nothing and nothing will come.
    pub fn is_drained(&self, worker: WorkerId) -> bool {
        !self.workers.is_active(worker) && self.owned(worker) == 0 && self.is_settled()
    }

    /// The workers that may be given groups from now on, any order.
    pub fn set_workers(&mut self, active: &[WorkerId]) {
        let before = self.workers.active().to_vec();
        self.workers.set_active(active);
        let workers = &self.workers;
        self.gone.retain(|&worker| !workers.is_active(worker));
        self.owned.resize(self.workers.limit().max(self.owned.len()), 0);
        let left = before.iter().any(|&worker| !self.workers.is_active(worker));
        let came = self.workers.active().iter().any(|worker| !before.contains(worker));
        // A policy is adopted by its first workers.
        let change = if before.is_empty() { Change::Adopted } else { Change::Grown };
        let under_way = self.rewrite.is_some() && (left || came);
        if left || under_way || (came && self.steer.wants_rewrite(change)) {
            self.want(Source::Policy);
        }
    }

    /// A worker has ended without handing its groups over: nothing waits for it any more. Call it
    /// before [`Control::set_workers`] without that worker.
    pub fn worker_gone(&mut self, worker: WorkerId) {
        if !self.gone.contains(&worker) {
            self.gone.push(worker);
        }
    }

    /// Another policy decides from now on.
    pub fn set_policy(&mut self, steer: Box<dyn Steer>) {
        self.leaving_shared = self.shares_queue() && !steer.shares_queue();
        self.steer = steer;
        let under_way = self.rewrite.is_some();
        if self.leaving_shared || under_way || self.steer.wants_rewrite(Change::Adopted) {
            self.want(Source::Policy);
        }
    }

    /// The owners of the hashed groups are to be these. What names a worker that is not active is
    /// left to the policy; [`check_owners`] finds that out before, off the data loop.
    ///
    /// # Errors
    /// Another number of groups.
    pub fn load(&mut self, owners: Vec<Entry>, live: &OwnerTable) -> Result<(), Refused> {
        if owners.len() != live.groups() as usize {
            return Err(Refused::Groups { given: owners.len(), have: live.groups() });
        }
        self.want(Source::Loaded(owners));
        Ok(())
    }

    /// The group stays with this worker, whatever the policy wants, while the worker is active.
    ///
    /// # Errors
    /// No such group, no such active worker, or too many pins.
    pub fn pin(
        &mut self,
        group: FlowGroup,
        worker: WorkerId,
        live: &OwnerTable,
    ) -> Result<(), Refused> {
        if group.index() >= live.len() {
            return Err(Refused::NoGroup(group));
        }
        if !self.workers.is_active(worker) {
            return Err(Refused::Worker(worker));
        }
        match self.pins.binary_search_by_key(&group, |&(pinned, _)| pinned) {
            Ok(at) => self.pins[at].1 = worker,
            Err(_) if self.pins.len() == PINS_MAX => return Err(Refused::Pins),
            Err(at) => self.pins.insert(at, (group, worker)),
        }
        Ok(())
    }

    /// Forgets a pin; false when there was none. The group stays where it is until the policy
    /// moves it.
    pub fn unpin(&mut self, group: FlowGroup) -> bool {
        let found = self.pins.binary_search_by_key(&group, |&(pinned, _)| pinned);
        found.map(|at| self.pins.remove(at)).is_ok()
    }

    /// All pins, ascending by group.
    pub fn pins(&self) -> &[(FlowGroup, WorkerId)] {
        &self.pins
    }

    /// A group that nobody owns, that is idle, or whose owner is gone has sent a packet. `None`
    /// when no worker is active.
    pub fn place(
        &mut self,
        group: FlowGroup,
        live: &mut OwnerTable,
        shadow: &mut OwnerTable,
        now: Nanos,
    ) -> Option<Placement> {
        if self.workers.active().is_empty() || group.index() >= live.len() {
            return None;
        }
        let entry = live.entry(group);
        let resting = entry.owner().filter(|owner| entry.is_idle() && !self.gone.contains(owner));
        let chosen = match (self.pinned(group), resting) {
            (Some(worker), _) => worker,
            (None, Some(owner)) if self.workers.is_active(owner) => {
                self.steer.wake(group, owner, &self.workers, now)
            }
            (None, _) => self.steer.place(group, &self.workers, now),
        };
        match entry.owner() {
            // A leaving owner too: what it has of the group must be handed over like any other's.
            Some(owner) if resting.is_some() => {
                // A wanted rewrite waits for hand-overs to end: begin no more of them.
                let settled = self.rewrite.is_none() && self.wanted.is_none() && !self.publishing;
                if owner != chosen && settled && !entry.is_moving() {
                    self.moves_in_flight += 1;
                    return Some(Placement::Move(Move { group, from: owner, to: chosen }));
                }
                self.wake(group, live, shadow);
                return Some(Placement::Now(owner));
            }
            Some(gone) => self.uncount(gone, group),
            None => {}
        }
        live.set(group, Entry::owned_by(chosen));
        self.count(chosen, group);
        if self.rewrite.is_some() {
            shadow.set(group, Entry::owned_by(chosen));
        }
        let home = &mut self.homes[group.index()];
        if home.owner().is_none() {
            *home = Entry::owned_by(chosen);
        }
        Some(Placement::Now(chosen))
    }

    /// Gives a group that nobody owns to the owner of the packets that it will get: a flow that is
    /// pinned starts where it is.
    pub fn assign(&mut self, group: FlowGroup, owner: WorkerId, live: &mut OwnerTable) {
        if live.entry(group).owner().is_none() {
            live.set(group, Entry::owned_by(owner));
            self.count(owner, group);
        }
    }

    /// Nobody is to own the group any more: its flow is steered by another one.
    pub fn disown(&mut self, group: FlowGroup, live: &mut OwnerTable) {
        if let Some(owner) = live.entry(group).owner() {
            live.set(group, Entry::UNOWNED);
            self.uncount(owner, group);
        }
    }

    /// A hand-over is complete.
    pub fn moved(&mut self, done: Move, live: &mut OwnerTable) {
        self.moves_in_flight = self.moves_in_flight.saturating_sub(1);
        let Move { group, from, to } = done;
        live.set(group, Entry::owned_by(to));
        self.uncount(from, group);
        self.count(to, group);
        self.homes[group.index()] = Entry::owned_by(to);
    }

    /// A hand-over was taken back at its deadline; the group stays with its owner.
    pub fn aborted(&mut self, undone: Move, live: &mut OwnerTable, now: Nanos) {
        self.moves_in_flight = self.moves_in_flight.saturating_sub(1);
        live.set(undone.group, live.entry(undone.group).with_idle(false).with_moving(false));
        self.retry_at = now + self.config.retry_after;
    }

    /// A move of a plan was not begun, perhaps because the group is on its way already.
    pub fn refused(&mut self, undone: Move, live: &mut OwnerTable) {
        self.moves_in_flight = self.moves_in_flight.saturating_sub(1);
        live.set(undone.group, live.entry(undone.group).with_idle(false));
    }

    /// Every old owner has passed its mark (or died, or was reverted): the shadow is free again.
    pub fn epoch_finished(&mut self) {
        self.publishing = false;
        self.published = None;
    }

    /// Takes back, in up to [`GROUPS_PER_STEP`] groups from `first` on, what a new table took from
    /// workers that did not give it up (`kept` says which). Returns the group to go on with, or
    /// `None` at the table's end; then the loop asks again after a while.
    pub fn revert(
        &mut self,
        first: FlowGroup,
        kept: impl Fn(WorkerId) -> bool,
        live: &mut OwnerTable,
        old: &OwnerTable,
        now: Nanos,
    ) -> Option<FlowGroup> {
        let end = (first.index() + GROUPS_PER_STEP).min(live.len());
        for group in (first.0..end as u32).map(FlowGroup) {
            let (was, is) = (old.entry(group).owner(), live.entry(group).owner());
            if let (Some(was), Some(is)) = (was, is)
                && was != is
                && kept(was)
            {
                live.set(group, Entry::owned_by(was));
                self.uncount(is, group);
                self.count(was, group);
            }
        }
        if end < live.len() {
            return Some(FlowGroup(end as u32));
        }
        let source = self.published.take().unwrap_or(Source::Policy);
        self.want(source);
        self.retry_at = now + self.config.retry_after;
        None
    }

    /// One turn of the loop.
    pub fn tick(
        &mut self,
        core: &CoreSample,
        load: Option<&LoadSample>,
        live: &mut OwnerTable,
        shadow: &mut OwnerTable,
        plan: &mut Plan,
    ) {
        plan.clear();
        self.workers.sample(core);
        if self.publishing || self.workers.active().is_empty() {
            return;
        }
        if self.rewrite.is_some() {
            self.rewrite_step(live, shadow, plan, core.now);
            return;
        }
        if self.wanted.is_some() && self.moves_in_flight == 0 && core.now >= self.retry_at {
            self.rewrite =
                self.wanted.take().map(|source| Rewrite::new(source, self.workers.limit()));
            return;
        }
        if self.wanted.is_some() {
            return;
        }
        self.restore_pins(live, plan, core.now);
        if let Some(load) = load {
            self.age(load, live);
            let before = plan.moves.len();
            self.steer.observe(load, live, &self.workers, &mut plan.moves);
            let pins = &self.pins;
            let free =
                |at: &Move| pins.binary_search_by_key(&at.group, |&(group, _)| group).is_err();
            let mut index = 0;
            plan.moves.retain(|candidate| {
                index += 1;
                index <= before || free(candidate)
            });
        }
        self.moves_in_flight += plan.moves.len();
    }

    /// Groups without packets for long may be placed anew when they wake.
    fn age(&self, load: &LoadSample, live: &mut OwnerTable) {
        for (group, seen) in (load.first.0..).map(FlowGroup).zip(&load.groups) {
            if seen.idle < self.config.idle_timeout {
                continue;
            }
            let entry = live.entry(group);
            if entry.plain().is_some() {
                live.set(group, entry.with_idle(true));
            }
        }
    }

    fn wake(&self, group: FlowGroup, live: &mut OwnerTable, shadow: &mut OwnerTable) {
        live.set(group, live.entry(group).with_idle(false));
        if self.rewrite.is_some() {
            shadow.set(group, shadow.entry(group).with_idle(false));
        }
    }

    fn restore_pins(&mut self, live: &OwnerTable, plan: &mut Plan, now: Nanos) {
        if self.pins.is_empty() || now < self.retry_at {
            return;
        }
        for _ in 0..PIN_MOVES_PER_TICK.min(self.pins.len()) {
            self.pin_cursor = (self.pin_cursor + 1) % self.pins.len();
            let (group, to) = self.pins[self.pin_cursor];
            let entry = live.entry(group);
            if let Some(from) = entry.owner()
                && from != to
                && !entry.is_moving()
                && self.workers.is_active(to)
            {
                plan.moves.push(Move { group, from, to });
            }
        }
    }

    fn rewrite_step(
        &mut self,
        live: &OwnerTable,
        shadow: &mut OwnerTable,
        plan: &mut Plan,
        now: Nanos,
    ) {
        let Self { steer, workers, homes, pins, rewrite, .. } = self;
        let Some(rewrite) = rewrite else { return };
        if rewrite.census_step(live, workers, homes) {
            if rewrite.census_done() {
                steer.begin_rewrite(rewrite.census(), workers);
            }
            return;
        }
        let pinned = |group| {
            let at =
                pins.binary_search_by_key(&group, |&(pinned, _): &(FlowGroup, WorkerId)| pinned);
            at.ok().map(|at| pins[at].1).filter(|&worker| workers.is_active(worker))
        };
        let mut decide = |state: GroupState| steer.reassign(state, workers, now);
        let done = rewrite.fill_step(live, shadow, workers, homes, pinned, &mut decide);
        if done && let Some(rewrite) = self.rewrite.take() {
            (self.owned, self.published) = rewrite.into_parts();
            self.owned.resize(self.workers.limit().max(self.owned.len()), 0);
            self.publishing = true;
            plan.publish = true;
            plan.fence = std::mem::take(&mut self.leaving_shared);
        }
    }

    fn pinned(&self, group: FlowGroup) -> Option<WorkerId> {
        let at = self.pins.binary_search_by_key(&group, |&(pinned, _)| pinned).ok()?;
        Some(self.pins[at].1).filter(|&worker| self.workers.is_active(worker))
    }

    fn want(&mut self, source: Source) {
        // A table loaded from outside is not forgotten over a change of workers that comes with it.
        let loaded = matches!(self.wanted, Some(Source::Loaded(_)));
        if !(loaded && matches!(source, Source::Policy)) {
            self.wanted = Some(source);
        }
        // The rewrite under way is about a world that is gone.
        if let Some(stale) = self.rewrite.take()
            && let (_, Some(source)) = stale.into_parts()
            && matches!(self.wanted, Some(Source::Policy))
        {
            self.wanted = Some(source);
        }
    }

    fn count(&mut self, worker: WorkerId, group: FlowGroup) {
        if let Some(owned) = self.owned.get_mut(worker.index()) {
            *owned += 1;
        }
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.count(worker, group, 1);
        }
    }

    fn uncount(&mut self, worker: WorkerId, group: FlowGroup) {
        if let Some(owned) = self.owned.get_mut(worker.index()) {
            *owned = owned.saturating_sub(1);
        }
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.count(worker, group, -1);
        }
    }
}

#[cfg(test)]
mod tests;
