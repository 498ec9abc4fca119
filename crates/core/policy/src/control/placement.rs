//! First packets: which worker gets a group, in constant time.

use base::{FlowGroup, Nanos, WorkerId};

use super::{Control, Placement};
use crate::plan::Move;
use crate::record::What;
use crate::table::{Entry, OwnerTable};

impl Control {
    /// Places a group that has no owner, is idle, or whose owner is gone, when its packet comes.
    /// `None` when no worker is active.
    pub fn place(
        &mut self,
        group: FlowGroup,
        live: &mut OwnerTable,
        shadow: &mut OwnerTable,
        now: Nanos,
    ) -> Option<Placement> {
        let found = live.entry(group);
        let placed = self.place_now(group, live, shadow, now);
        self.note(|| What::place(group, found, placed, now));
        placed
    }

    fn place_now(
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

    /// Gives an unowned group to the worker that will get its packets: a flow that is pinned stays
    /// where it is.
    pub fn assign(&mut self, group: FlowGroup, owner: WorkerId, live: &mut OwnerTable) {
        if live.entry(group).owner().is_none() {
            live.set(group, Entry::owned_by(owner));
            self.count(owner, group);
        }
        self.note(|| What::Assign { group, owner });
    }

    /// Makes the group unowned: its flow is steered by another one.
    pub fn disown(&mut self, group: FlowGroup, live: &mut OwnerTable) {
        if let Some(owner) = live.entry(group).owner() {
            live.set(group, Entry::UNOWNED);
            self.uncount(owner, group);
        }
        self.note(|| What::Disown(group));
    }

    /// The shell writes the entry of a group: a hand-over has begun, or its packets wait for what
    /// a dead worker left. The owner stays as it is.
    pub fn write(&mut self, group: FlowGroup, entry: Entry, live: &mut OwnerTable) {
        live.set(group, entry);
        self.note(|| What::Write { group, entry });
    }

    fn wake(&self, group: FlowGroup, live: &mut OwnerTable, shadow: &mut OwnerTable) {
        live.set(group, live.entry(group).with_idle(false));
        if self.rewrite.is_some() {
            shadow.set(group, shadow.entry(group).with_idle(false));
        }
    }
}
