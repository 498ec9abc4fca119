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
//!   table becomes the shadow) and calls [`Control::epoch_finished`] when every old owner has
//!   passed its mark. In between it may revert what a worker did not give up, by
//!   [`Control::revert`]. Until then nothing here writes the shadow and no move is planned.
//! - Changes of workers, policy, table and pins are requests; a later tick acts on them. So are the
//!   proposals of an outside controller ([`Control::propose`]).
//! - What the shell itself writes into the live table (a hand-over has begun, say), it writes by
//!   [`Control::write`], so that a recording knows of it.
//!
//! Every call does bounded work: at most [`crate::sample::GROUPS_PER_STEP`] groups.

mod outcome;
mod outside;
mod pins;
mod placement;
mod recording;
mod requests;
mod rewriting;

use base::{FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use self::outside::Outside;
pub(crate) use self::outside::Proposal;
pub use self::outside::{LeaseState, Place};
use crate::number;
use crate::plan::{Move, Plan};
use crate::record::Recorder;
use crate::rewrite::{Rewrite, Source};
use crate::sample::{CoreSample, LoadSample};
use crate::steer::{Steer, Workers};
use crate::table::{Entry, OwnerTable};

/// Settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlConfig {
    /// A group without a packet for this long may be placed anew.
    #[serde(with = "number::nanos")]
    pub idle_timeout: Nanos,
    /// Wait this long before asking again for what was aborted.
    #[serde(with = "number::nanos")]
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
    outside: Outside,
    recorder: Option<Box<Recorder>>,
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
            outside: Outside::default(),
            recorder: None,
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
            && self.outside.is_empty()
    }

    /// Whether a worker that was asked to leave may go: it owns nothing and nothing will come.
    pub fn is_drained(&self, worker: WorkerId) -> bool {
        !self.workers.is_active(worker) && self.owned(worker) == 0 && self.is_settled()
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
        if self.recorder.is_some() {
            self.recorded_turn(core, load, live, shadow, plan);
        } else {
            self.turn(core, load, live, shadow, plan);
        }
    }

    fn turn(
        &mut self,
        core: &CoreSample,
        load: Option<&LoadSample>,
        live: &mut OwnerTable,
        shadow: &mut OwnerTable,
        plan: &mut Plan,
    ) {
        plan.clear();
        self.workers.sample(core);
        if self.workers.active().is_empty() {
            // Nobody is left to whom a group could be given.
            self.outside.forget_proposals();
            return;
        }
        if self.publishing {
            return;
        }
        if self.outside.lease_runs_out(core.now) {
            self.steer.resume();
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
        self.carry_proposals(live, plan, core.now);
        if let Some(load) = load {
            self.age(load, live);
            self.observe(load, live, &mut plan.moves);
        }
        self.moves_in_flight += plan.moves.len();
    }

    /// The policy looks at the load; what it asks for is dropped where a pin or an outside
    /// controller says otherwise.
    fn observe(&mut self, load: &LoadSample, live: &OwnerTable, moves: &mut Vec<Move>) {
        let before = moves.len();
        self.steer.observe(load, live, &self.workers, moves);
        if self.outside.has_lease() {
            // The policy sees every sample all the same, so that its figures are whole.
            moves.truncate(before);
            return;
        }
        let mut kept = before;
        for index in before..moves.len() {
            let group = moves[index].group;
            let pinned = self.pins.binary_search_by_key(&group, |&(pinned, _)| pinned).is_ok();
            if !pinned && moves[..before].iter().all(|first| first.group != group) {
                moves[kept] = moves[index];
                kept += 1;
            }
        }
        moves.truncate(kept);
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
