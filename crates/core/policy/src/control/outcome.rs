//! How moves and published tables ended, as the shell reports it.

use base::{FlowGroup, Nanos, WorkerId};

use super::Control;
use crate::plan::Move;
use crate::record::What;
use crate::rewrite::Source;
use crate::sample::GROUPS_PER_STEP;
use crate::table::{Entry, OwnerTable};

impl Control {
    /// A hand-over is complete.
    pub fn moved(&mut self, done: Move, live: &mut OwnerTable) {
        self.moves_in_flight = self.moves_in_flight.saturating_sub(1);
        let Move { group, from, to } = done;
        live.set(group, Entry::owned_by(to));
        self.uncount(from, group);
        self.count(to, group);
        self.homes[group.index()] = Entry::owned_by(to);
        self.note(|| What::Moved(done));
    }

    /// A hand-over was taken back at its deadline; the group stays with its owner.
    pub fn aborted(&mut self, undone: Move, live: &mut OwnerTable, now: Nanos) {
        self.moves_in_flight = self.moves_in_flight.saturating_sub(1);
        live.set(undone.group, live.entry(undone.group).with_idle(false).with_moving(false));
        self.retry_at = now + self.config.retry_after;
        self.note(|| What::Aborted { undone, now });
    }

    /// A move of a plan was not begun, perhaps because the group is on its way already.
    pub fn refused(&mut self, undone: Move, live: &mut OwnerTable) {
        self.moves_in_flight = self.moves_in_flight.saturating_sub(1);
        live.set(undone.group, live.entry(undone.group).with_idle(false));
        self.note(|| What::Refused(undone));
    }

    /// Every old owner has passed its mark (or died, or was reverted): the shadow is free again.
    pub fn epoch_finished(&mut self) {
        self.publishing = false;
        self.published = None;
        self.note(|| What::EpochFinished);
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
        let mut last_kept = None;
        for group in (first.0..end as u32).map(FlowGroup) {
            let (was, is) = (old.entry(group).owner(), live.entry(group).owner());
            if let (Some(was), Some(is)) = (was, is)
                && was != is
                && kept(was)
            {
                self.note_kept(was, &mut last_kept);
                live.set(group, Entry::owned_by(was));
                self.uncount(is, group);
                self.count(was, group);
            }
        }
        let next = (end < live.len()).then_some(FlowGroup(end as u32));
        self.note(|| What::Revert { first, now, next });
        if next.is_some() {
            return next;
        }
        let source = self.published.take().unwrap_or(Source::Policy);
        self.want(source);
        self.retry_at = now + self.config.retry_after;
        None
    }
}
