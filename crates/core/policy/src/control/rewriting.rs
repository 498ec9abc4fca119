//! A new table: wanted, made step by step, and published.

use base::{FlowGroup, Nanos, WorkerId};

use super::Control;
use crate::plan::Plan;
use crate::rewrite::Source;
use crate::steer::GroupState;
use crate::table::OwnerTable;

impl Control {
    pub(super) fn rewrite_step(
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

    /// A new table is to be made, as soon as nothing is in its way.
    pub(super) fn want(&mut self, source: Source) {
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
}
