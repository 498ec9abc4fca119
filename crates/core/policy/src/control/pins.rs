//! Pins: groups that stay with a worker, whatever the policy wants.

use base::{FlowGroup, Nanos, WorkerId};

use super::Control;
use crate::plan::{Move, Plan};
use crate::record::What;
use crate::refused::{PINS_MAX, Refused};
use crate::table::OwnerTable;

/// Moves that one tick asks for to restore pins, at most.
const PIN_MOVES_PER_TICK: usize = 16;

impl Control {
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
        self.note(|| What::Pin { group, worker });
        Ok(())
    }

    /// Removes a pin; false when there was none. The group stays where it is until the policy moves
    /// it.
    pub fn unpin(&mut self, group: FlowGroup) -> bool {
        let found = self.pins.binary_search_by_key(&group, |&(pinned, _)| pinned);
        let found = found.map(|at| self.pins.remove(at)).is_ok();
        self.note(|| What::Unpin { group, found });
        found
    }

    /// All pins, ascending by group.
    pub fn pins(&self) -> &[(FlowGroup, WorkerId)] {
        &self.pins
    }

    pub(super) fn restore_pins(&mut self, live: &OwnerTable, plan: &mut Plan, now: Nanos) {
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

    pub(super) fn pinned(&self, group: FlowGroup) -> Option<WorkerId> {
        let at = self.pins.binary_search_by_key(&group, |&(pinned, _)| pinned).ok()?;
        Some(self.pins[at].1).filter(|&worker| self.workers.is_active(worker))
    }
}
