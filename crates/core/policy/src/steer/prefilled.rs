//! `prefilled`: the paper's future work. Every group has an owner before its first packet, spread
//! evenly or loaded from outside, so the first packet costs what every other one does. When the
//! workers change, it moves as little as sticky.

use base::{FlowGroup, Nanos, WorkerId};

use super::{
    Census, Change, GroupState, LeastMovement, Saved, SavedSteer, Steer, Workers, modulo_owner,
};

/// The quotas of the rewrite under way.
#[derive(Debug, Default)]
pub(super) struct Prefilled {
    quotas: LeastMovement,
}

impl Steer for Prefilled {
    fn name(&self) -> &'static str {
        "prefilled"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::Prefilled.into())
    }

    fn place(&mut self, group: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        modulo_owner(group, workers)
    }

    fn wants_rewrite(&self, _: Change) -> bool {
        true
    }

    fn begin_rewrite(&mut self, census: &Census, workers: &Workers) {
        self.quotas.begin(census, workers);
    }

    fn reassign(&mut self, group: GroupState, workers: &Workers, _: Nanos) -> Option<WorkerId> {
        // Groups that nobody has had yet are spread by number: any even spread is as good.
        self.quotas.reassign(group, workers).or_else(|| Some(modulo_owner(group.group, workers)))
    }
}
