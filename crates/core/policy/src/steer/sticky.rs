//! `sticky`, the default: a group stays with its worker, and when the set of workers changes, the
//! fewest groups move that restore balance. A worker that returns gets its groups back.

use base::{FlowGroup, Nanos, WorkerId};

use super::{Census, Change, GroupState, LeastMovement, Saved, SavedSteer, Steer, Turn, Workers};

/// Whose turn it is, and the quotas of the rewrite under way.
#[derive(Debug, Default)]
pub(super) struct Sticky {
    turn: Turn,
    quotas: LeastMovement,
}

impl From<Turn> for Sticky {
    fn from(turn: Turn) -> Self {
        Self { turn, quotas: LeastMovement::default() }
    }
}

impl Steer for Sticky {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::Sticky(self.turn.clone()).into())
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
