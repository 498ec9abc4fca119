//! `sticky`, the default: a group stays with its worker, and when the set of workers changes, the
//! fewest groups move that restore balance. A worker that returns gets its groups back.

use base::{FlowGroup, Nanos, WorkerId};

use super::{Census, Change, GroupState, LeastMovement, Steer, Turn, Workers};

/// Whose turn it is, and the quotas of the rewrite under way.
#[derive(Debug, Default)]
pub(super) struct Sticky {
    turn: Turn,
    quotas: LeastMovement,
}

impl Steer for Sticky {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn place(&mut self, _: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        self.turn.next(workers)
    }

    fn wants_rewrite(&self, change: Change) -> bool {
        change == Change::Grown
    }

    fn begin_rewrite(&mut self, census: &Census, workers: &Workers) {
        self.quotas.begin(census, workers);
    }

    fn reassign(&mut self, group: GroupState, workers: &Workers, _: Nanos) -> Option<WorkerId> {
        self.quotas.reassign(group, workers)
    }
}
