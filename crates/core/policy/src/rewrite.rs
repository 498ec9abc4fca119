//! A new table in the making: first a census of the old one, then chunk by chunk its successor.
//!
//! Both passes take [`GROUPS_PER_STEP`] groups at a time, so a million groups are rewritten in some
//! 500 short steps between which packets flow, on one core as on many. Counting starts over with
//! each rewrite, so no error of bookkeeping outlives one.

use std::sync::Arc;

use base::{FlowGroup, WorkerId};

use crate::sample::GROUPS_PER_STEP;
use crate::steer::{Census, GroupState, Workers};
use crate::table::{Entry, OwnerTable};

/// Where the new owners come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The policy is asked for each group.
    Policy,
    /// A table was loaded from outside; the policy only fills what it leaves open.
    Loaded(Arc<Vec<Entry>>),
}

/// How far a rewrite has come.
#[derive(Debug)]
pub(crate) struct Rewrite {
    source: Source,
    census: Census,
    /// The next group of the census; then everything is counted.
    counted: usize,
    /// The next group to fill.
    filled: usize,
    /// By worker id: entries of the new table, over the groups filled so far.
    owned: Vec<u32>,
}

impl Rewrite {
    pub(crate) fn new(source: Source, workers: usize) -> Self {
        let mut census = Census::default();
        census.reset(workers);
        Self { source, census, counted: 0, filled: 0, owned: vec![0; workers] }
    }

    /// Counts some groups; false when all were counted before.
    pub(crate) fn census_step(
        &mut self,
        live: &OwnerTable,
        workers: &Workers,
        homes: &[Entry],
    ) -> bool {
        if self.counted >= live.len() {
            return false;
        }
        let end = (self.counted + GROUPS_PER_STEP).min(live.len());
        let range = self.counted..end;
        let groups = (self.counted as u32..).map(FlowGroup);
        let entries = live.entries()[range.clone()].iter().zip(&homes[range]);
        for (group, (entry, home)) in groups.zip(entries) {
            let state = GroupState {
                group,
                owner: entry.owner(),
                home: home.owner(),
                idle: entry.is_idle(),
            };
            self.census.count(state, workers);
        }
        self.counted = if end == live.len() { usize::MAX } else { end };
        true
    }

    pub(crate) fn census_done(&self) -> bool {
        self.counted == usize::MAX
    }

    pub(crate) fn census(&self) -> &Census {
        &self.census
    }

    /// Fills some groups; true when the new table is complete.
    pub(crate) fn fill_step(
        &mut self,
        live: &OwnerTable,
        shadow: &mut OwnerTable,
        workers: &Workers,
        homes: &mut [Entry],
        pinned: impl Fn(FlowGroup) -> Option<WorkerId>,
        decide: &mut impl FnMut(GroupState) -> Option<WorkerId>,
    ) -> bool {
        let end = (self.filled + GROUPS_PER_STEP).min(live.len());
        for group in (self.filled as u32..end as u32).map(FlowGroup) {
            let entry = live.entry(group);
            let (owner, home) = (entry.owner(), homes[group.index()].owner());
            let new = if let Some(worker) = pinned(group).or_else(|| self.loaded(group, workers)) {
                Some(worker)
            } else if group.0 >= live.groups() {
                // A virtual group follows its pin; while it has none, it stays if it can.
                owner.filter(|&owner| workers.is_active(owner)).or_else(|| {
                    owner?;
                    workers.active().get(group.index() % workers.active().len().max(1)).copied()
                })
            } else {
                decide(GroupState { group, owner, home, idle: entry.is_idle() })
            };
            let Some(new) = new else {
                shadow.set(group, Entry::UNOWNED);
                continue;
            };
            let still_idle = entry.is_idle() && owner == Some(new);
            shadow.set(group, Entry::owned_by(new).with_idle(still_idle));
            if let Some(count) = self.owned.get_mut(new.index()) {
                *count += 1;
            }
            // A group whose home is away keeps it, wherever it stays meanwhile; any other change
            // is meant.
            let home_is_away = home.is_some_and(|home| !workers.is_active(home));
            if home.is_none() || (owner != Some(new) && !home_is_away) {
                homes[group.index()] = Entry::owned_by(new);
            }
        }
        self.filled = end;
        end == live.len()
    }

    /// A group was placed (or its owner died) while the rewrite is under way: what has been
    /// filled already is corrected, the rest will be seen.
    pub(crate) fn count(&mut self, worker: WorkerId, group: FlowGroup, change: i32) {
        if group.index() < self.filled
            && let Some(count) = self.owned.get_mut(worker.index())
        {
            *count = count.saturating_add_signed(change);
        }
    }

    /// The counts of the new table, and the loaded table that it was made from, if any.
    pub(crate) fn into_parts(self) -> (Vec<u32>, Option<Source>) {
        let loaded = matches!(self.source, Source::Loaded(_)).then_some(self.source);
        (self.owned, loaded)
    }

    /// The loaded owner, unless it has left since the table was checked.
    fn loaded(&self, group: FlowGroup, workers: &Workers) -> Option<WorkerId> {
        let Source::Loaded(owners) = &self.source else {
            return None;
        };
        owners.get(group.index())?.owner().filter(|&owner| workers.is_active(owner))
    }
}
