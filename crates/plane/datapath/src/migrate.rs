//! Moving groups between workers without reordering: the only state that spans cores.
//!
//! To move group g from A to B, its new packets are held and BARRIER(g) goes down A's ring. A,
//! having completed everything before the barrier, detaches g and says so; B is told to attach it
//! and then gets the held packets. A published table does the same for all its groups at once, with
//! one barrier per old owner. Each hand-over ends in *release* or, at its deadline and only if A
//! has not detached yet, in *abort*: then the held packets go to A. Who won that race is decided by
//! one word ([`shm::Handovers`]). What must hold, for every flow: all packets sent to A are
//! completed before B gets the first one. A dead A's undone packets are older than the held ones
//! and go first.

use base::{Epoch, FlowGroup, Nanos, WorkerId};
use policy::{Move, OwnerTable};
use shm::{Handovers, Ticket};

use crate::hold::{HoldList, HoldQueue};
use crate::message::Moving;

/// Settings of hand-overs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrateConfig {
    /// Packets held by all hand-overs together, at most.
    pub hold_packets: usize,
    /// A hand-over that the old owner has not answered for this long is taken back. Longer than a
    /// scheduler tick (4 ms): an old owner that merely lost its CPU is worth waiting for.
    pub deadline: Nanos,
    /// Single-group hand-overs at once.
    pub slots: usize,
}

impl Default for MigrateConfig {
    fn default() -> Self {
        Self { hold_packets: 2048, deadline: Nanos::from_millis(20), slots: 256 }
    }
}

/// Where a hand-over is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is unused.
    Closed,
    /// The barrier is still to be sent: the old owner's ring was full.
    Unsent,
    /// The barrier is on its way through the old owner's ring.
    Open(Ticket),
    /// The old owner has given up; the held packets go to whoever owns their groups now.
    Releasing,
    /// Taken back; the held packets go to the old owner.
    Returning,
    /// Taken back and nothing held any more (epochs only: the table is yet to be put right).
    Kept,
}

/// One hand-over.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) phase: Phase,
    /// What the plan asked for; for an epoch, `from` is the old owner and the rest means nothing.
    pub(crate) asked: Move,
    pub(crate) list: HoldList,
    pub(crate) deadline: Nanos,
    /// A single group's new owner has been told.
    pub(crate) attached: bool,
}

/// A published table whose old owners have not all passed their barriers.
#[derive(Debug)]
pub(crate) struct Transition {
    /// Everything waits here until every old owner has passed: the table before was not obeyed
    /// (any worker took any packet), so it does not say whose packets may be under way.
    pub(crate) fence: Option<HoldList>,
    /// Where the repair of an abort has come; `None`: nothing to repair, or done.
    pub(crate) repair: Option<FlowGroup>,
    pub(crate) repaired: bool,
}

/// All hand-overs of a dispatcher.
#[derive(Debug)]
pub(crate) struct Migrate {
    config: MigrateConfig,
    handovers: Handovers,
    pub(crate) hold: HoldQueue,
    /// First `config.slots` for single groups, then one per worker id for epochs.
    slots: Vec<Slot>,
    /// Single-group slots in use.
    singles: usize,
    pub(crate) transition: Option<Transition>,
    epoch: Epoch,
    /// Held packets that this turn may still release.
    pub(crate) release_left: usize,
}

/// What to do with a packet whose group is not plainly owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Send it to this worker.
    Send(WorkerId),
    /// Hold it in the list of this slot.
    Hold(usize),
    /// Hold it in the transition's fence.
    Fence,
    /// No hand-over concerns it: the table, and then the policy, decide.
    Free,
}

impl Migrate {
    pub(crate) fn new(config: MigrateConfig, workers_max: usize) -> Self {
        Self::over(config, workers_max, Handovers::new(config.slots + workers_max))
    }

    /// The same over words that lie elsewhere; there must be one for each slot.
    pub(crate) fn over(config: MigrateConfig, workers_max: usize, handovers: Handovers) -> Self {
        let closed = |_| Slot {
            phase: Phase::Closed,
            asked: Move { group: FlowGroup(0), from: WorkerId(0), to: WorkerId(0) },
            list: HoldList::EMPTY,
            deadline: Nanos::FAR_FUTURE,
            attached: false,
        };
        let count = config.slots + workers_max;
        assert_eq!(handovers.slots(), count, "a word for each hand-over");
        Self {
            config,
            handovers,
            hold: HoldQueue::new(config.hold_packets),
            slots: (0..count).map(closed).collect(),
            singles: 0,
            transition: None,
            epoch: Epoch(0),
            release_left: 0,
        }
    }

    /// Whether one more held packet may be released in this turn; it counts as released then.
    pub(crate) fn may_release(&mut self) -> bool {
        let may = self.release_left > 0;
        self.release_left = self.release_left.saturating_sub(1);
        may
    }

    /// A view of the words that decide between detach and abort, for a worker.
    pub(crate) fn handovers(&self) -> Handovers {
        self.handovers.clone()
    }

    /// Whether no packet can be concerned by any hand-over.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.singles == 0 && self.transition.is_none()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    pub(crate) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    /// The slots that may be in use: a worker's epoch slot is used only during a transition.
    pub(crate) fn slots_in_use(&self) -> std::ops::Range<usize> {
        let first = if self.singles == 0 { self.config.slots } else { 0 };
        let last = if self.transition.is_none() { self.config.slots } else { self.slots.len() };
        first..last.max(first)
    }

    /// The list and the shared nodes of a slot, to push and pop held packets.
    pub(crate) fn held(&mut self, index: usize) -> (&mut HoldQueue, &mut HoldList) {
        (&mut self.hold, &mut self.slots[index].list)
    }

    /// What becomes of a packet of `group`.
    #[inline]
    pub(crate) fn admit(&self, group: FlowGroup, live: &OwnerTable, old: &OwnerTable) -> Admission {
        if let Some(transition) = &self.transition {
            if transition.fence.is_some() {
                return Admission::Fence;
            }
            return self.admit_in_transition(group, live, old);
        }
        if self.singles > 0 && live.entry(group).is_moving() {
            return self.single_of(group).map_or(Admission::Free, Admission::Hold);
        }
        Admission::Free
    }

    fn admit_in_transition(
        &self,
        group: FlowGroup,
        live: &OwnerTable,
        old: &OwnerTable,
    ) -> Admission {
        let (Some(was), Some(is)) = (old.entry(group).owner(), live.entry(group).owner()) else {
            return Admission::Free;
        };
        if was == is {
            return Admission::Free;
        }
        let index = self.epoch_slot(was);
        let slot = &self.slots[index];
        match slot.phase {
            // A closed slot has passed, and everything it held has been released.
            Phase::Closed => Admission::Free,
            Phase::Kept => Admission::Send(was),
            Phase::Unsent | Phase::Open(_) | Phase::Releasing | Phase::Returning => {
                Admission::Hold(index)
            }
        }
    }

    /// The slot of a group that moves alone.
    pub(crate) fn single_of(&self, group: FlowGroup) -> Option<usize> {
        let singles = &self.slots[..self.config.slots];
        singles.iter().position(|slot| slot.phase != Phase::Closed && slot.asked.group == group)
    }

    /// The slot of a worker's barrier in an epoch.
    pub(crate) fn epoch_slot(&self, worker: WorkerId) -> usize {
        self.config.slots + worker.index()
    }

    /// Whether the slot belongs to a barrier, and whose.
    pub(crate) fn moving_of(&self, index: usize) -> Moving {
        if index < self.config.slots {
            Moving::Group(self.slots[index].asked.group)
        } else {
            Moving::Epoch(self.epoch)
        }
    }

    pub(crate) fn is_single(&self, index: usize) -> bool {
        index < self.config.slots
    }

    /// Takes a slot for a single group; `None` when all are in use or an epoch is under way.
    pub(crate) fn begin_single(&mut self, asked: Move, now: Nanos) -> Option<usize> {
        if self.transition.is_some() {
            return None;
        }
        let singles = &self.slots[..self.config.slots];
        let index = singles.iter().position(|slot| slot.phase == Phase::Closed)?;
        self.singles += 1;
        self.open(index, asked, now);
        Some(index)
    }

    /// Starts a transition and opens a barrier for each of `owners`.
    pub(crate) fn begin_epoch(
        &mut self,
        owners: impl Iterator<Item = WorkerId>,
        fence: bool,
        now: Nanos,
    ) {
        debug_assert!(self.is_quiet(), "control publishes only when nothing moves");
        self.epoch = self.epoch.next();
        self.transition = Some(Transition {
            fence: fence.then_some(HoldList::EMPTY),
            repair: None,
            repaired: false,
        });
        for owner in owners {
            let asked = Move { group: FlowGroup(0), from: owner, to: owner };
            self.open(self.epoch_slot(owner), asked, now);
        }
    }

    fn open(&mut self, index: usize, asked: Move, now: Nanos) {
        let slot = &mut self.slots[index];
        slot.phase = Phase::Unsent;
        slot.asked = asked;
        slot.deadline = now + self.config.deadline;
        slot.attached = false;
        debug_assert!(slot.list.is_empty(), "a closed slot holds nothing");
    }

    /// A number for the barrier that is about to be sent.
    pub(crate) fn ticket(&self, index: usize) -> Ticket {
        self.handovers.open(index)
    }

    /// Takes a sent or unsent barrier back; false when the old owner has detached already.
    pub(crate) fn abort(&mut self, index: usize) -> bool {
        let aborted = match self.slots[index].phase {
            Phase::Unsent => true,
            Phase::Open(ticket) => self.handovers.abort(ticket),
            _ => false,
        };
        if aborted {
            self.slots[index].phase = Phase::Returning;
        }
        aborted
    }

    /// The old owner says that it has detached; the slot, unless the message is stale.
    pub(crate) fn passed(&mut self, ticket: Ticket) -> Option<usize> {
        let index = ticket.slot();
        let slot = self.slots.get_mut(index)?;
        if slot.phase != Phase::Open(ticket) {
            return None;
        }
        slot.phase = Phase::Releasing;
        Some(index)
    }

    /// The slot is used no more.
    pub(crate) fn close(&mut self, index: usize) {
        self.slots[index].phase = Phase::Closed;
        if self.is_single(index) {
            self.singles -= 1;
        }
    }

    /// Whether every barrier of the transition is through.
    pub(crate) fn barriers_ended(&self) -> bool {
        let barriers = &self.slots[self.config.slots..];
        barriers.iter().all(|slot| matches!(slot.phase, Phase::Closed | Phase::Kept))
    }

    /// Whether some worker keeps the groups that the table took from it.
    pub(crate) fn is_kept(&self, worker: WorkerId) -> bool {
        self.slots[self.epoch_slot(worker)].phase == Phase::Kept
    }

    /// Ends the transition.
    pub(crate) fn end_epoch(&mut self) {
        for index in self.config.slots..self.slots.len() {
            self.slots[index].phase = Phase::Closed;
        }
        self.transition = None;
    }

    /// The earliest deadline, to know how long one may sleep.
    pub(crate) fn next_deadline(&self) -> Nanos {
        let waiting = |slot: &&Slot| matches!(slot.phase, Phase::Unsent | Phase::Open(_));
        let slots = self.slots[self.slots_in_use()].iter();
        slots.filter(waiting).map(|slot| slot.deadline).min().unwrap_or(Nanos::FAR_FUTURE)
    }
}
