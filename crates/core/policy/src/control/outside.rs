//! An outside controller: its proposals, and the lease during which it has the table.
//!
//! Proposals wait in a bounded queue and are carried out by later ticks, a few at a time. While a
//! lease lasts, the policy looks at the load and moves nothing. First packets, and what happens
//! when workers come, leave or die, are its business all the time: neither can wait for an answer
//! from outside.

use std::collections::VecDeque;

use base::{FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::Control;
use crate::number;
use crate::plan::{Move, Plan};
use crate::record::What;
use crate::refused::Refused;
use crate::sample::GROUPS_PER_STEP;
use crate::table::{Entry, OwnerTable};

/// Hand-overs under way, at most, for proposals to add to them. The shell has room for more, so
/// that first packets and pins are not kept waiting by a controller.
const MOVES_AT_ONCE: usize = 16;

/// An unowned group is to begin with this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Which group.
    #[serde(with = "number::group")]
    pub group: FlowGroup,
    /// Who is to own it.
    #[serde(with = "number::worker")]
    pub worker: WorkerId,
}

/// An outside controller's lease, and what waits of its proposals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// The end of the lease in force; `None`: the policy decides alone.
    pub until: Option<Nanos>,
    /// Leases that ran out before they were renewed or given back.
    pub ran_out: u64,
    /// Proposals that wait to be carried out.
    pub queued: usize,
    /// Proposals that were dropped because the world had changed when their turn came.
    pub stale: u64,
}

/// One proposal that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Proposal {
    Move(Move),
    Place(Place),
}

/// What the loop remembers about its controller.
#[derive(Debug, Default)]
pub(super) struct Outside {
    pub(super) until: Option<Nanos>,
    pub(super) queue: VecDeque<Proposal>,
    ran_out: u64,
    stale: u64,
}

impl Outside {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn has_lease(&self) -> bool {
        self.until.is_some()
    }

    pub(super) fn forget_proposals(&mut self) {
        self.stale += self.queue.len() as u64;
        self.queue.clear();
    }

    /// Whether the lease ends with this look at the clock.
    pub(super) fn lease_runs_out(&mut self, now: Nanos) -> bool {
        let ends = self.until.is_some_and(|until| now >= until);
        if ends {
            self.until = None;
            self.ran_out += 1;
        }
        ends
    }
}

impl Control {
    /// Gives the table to an outside controller until then: the policy moves nothing by what it
    /// observes. Call it again to renew the lease. It ends by itself, and then the policy goes on
    /// from the table as it is.
    pub fn lease(&mut self, until: Nanos) {
        self.outside.until = Some(until);
        self.note(|| What::Lease(until));
    }

    /// The outside controller has given the table back, or is gone; what it has proposed and what
    /// still waits is forgotten.
    pub fn lease_ended(&mut self) {
        self.outside.forget_proposals();
        if self.outside.until.take().is_some() {
            self.steer.resume();
        }
        self.note(|| What::LeaseEnded);
    }

    /// The lease, and what waits, as of the last tick.
    pub fn lease_state(&self) -> LeaseState {
        let Outside { until, queue, ran_out, stale } = &self.outside;
        LeaseState { until: *until, ran_out: *ran_out, queued: queue.len(), stale: *stale }
    }

    /// An outside controller asks for these moves, and for these workers for groups that nobody
    /// owns. Later ticks carry them out in this order, moves in their plans, few at a time; what
    /// is no longer true by then is dropped and counted. A group that is named twice follows the
    /// first that is true when its turn comes. Only hashed groups: pinned flows stay pinned.
    ///
    /// # Errors
    /// The first that is wrong; then none of them counts. At most [`GROUPS_PER_STEP`] wait.
    pub fn propose(
        &mut self,
        moves: &[Move],
        places: &[Place],
        live: &OwnerTable,
    ) -> Result<(), Refused> {
        let given = moves.len() + places.len();
        let room = GROUPS_PER_STEP.saturating_sub(self.outside.queue.len());
        if given > room {
            return Err(Refused::Proposals { given, room });
        }
        moves.iter().try_for_each(|asked| self.check_move(asked, live))?;
        places.iter().try_for_each(|place| self.check_place(place, live))?;
        for &asked in moves {
            self.outside.queue.push_back(Proposal::Move(asked));
            self.note(|| What::Asked(asked));
        }
        for &place in places {
            self.outside.queue.push_back(Proposal::Place(place));
            self.note(|| What::Put(place));
        }
        self.note(|| What::Propose);
        Ok(())
    }

    fn check_move(&self, asked: &Move, live: &OwnerTable) -> Result<(), Refused> {
        let Move { group, from, to } = *asked;
        self.check_target(group, to, live)?;
        if live.entry(group).owner() != Some(from) {
            return Err(Refused::NotOwner(group, from));
        }
        if from == to { Err(Refused::Stays(group, to)) } else { Ok(()) }
    }

    fn check_place(&self, place: &Place, live: &OwnerTable) -> Result<(), Refused> {
        self.check_target(place.group, place.worker, live)?;
        match live.entry(place.group).owner() {
            Some(owner) => Err(Refused::Owned(place.group, owner)),
            None => Ok(()),
        }
    }

    fn check_target(
        &self,
        group: FlowGroup,
        to: WorkerId,
        live: &OwnerTable,
    ) -> Result<(), Refused> {
        if group.0 >= live.groups() {
            return Err(Refused::NoGroup(group));
        }
        if !self.workers.is_active(to) {
            return Err(Refused::Worker(to));
        }
        match self.pinned(group) {
            Some(worker) if worker != to => Err(Refused::Pinned(group, worker)),
            _ => Ok(()),
        }
    }

    /// Carries out what was proposed, in its order, as far as hand-overs have room.
    pub(super) fn carry_proposals(&mut self, live: &mut OwnerTable, plan: &mut Plan, now: Nanos) {
        if self.outside.is_empty() || now < self.retry_at {
            return;
        }
        let room = MOVES_AT_ONCE.saturating_sub(self.moves_in_flight);
        while let Some(&proposal) = self.outside.queue.front() {
            if plan.moves.len() >= room && matches!(proposal, Proposal::Move(_)) {
                return;
            }
            self.outside.queue.pop_front();
            if !self.carry_out(proposal, live, plan) {
                self.outside.stale += 1;
            }
        }
    }

    /// False when the world has changed since it was proposed.
    fn carry_out(&mut self, proposal: Proposal, live: &mut OwnerTable, plan: &mut Plan) -> bool {
        match proposal {
            Proposal::Move(asked) => {
                let true_now = self.check_move(&asked, live).is_ok()
                    && !live.entry(asked.group).is_moving()
                    && plan.moves.iter().all(|other| other.group != asked.group);
                if true_now {
                    plan.moves.push(asked);
                }
                true_now
            }
            Proposal::Place(place) => {
                let true_now = self.check_place(&place, live).is_ok();
                if true_now {
                    let Place { group, worker } = place;
                    live.set(group, Entry::owned_by(worker));
                    self.count(worker, group);
                    self.homes[group.index()] = Entry::owned_by(worker);
                }
                true_now
            }
        }
    }
}
