//! `modulo`: Shenango's `hash % active workers`, the baseline that everything is measured against.

use base::{FlowGroup, Nanos, WorkerId};

use super::{Change, GroupState, Saved, SavedSteer, Steer, Workers, modulo_owner};

/// Has no state: the table is a function of the set of workers.
#[derive(Debug)]
pub(super) struct Modulo;

impl Steer for Modulo {
    fn name(&self) -> &'static str {
        "modulo"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::Modulo.into())
    }

    fn place(&mut self, group: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        modulo_owner(group, workers)
    }

    fn wants_rewrite(&self, _: Change) -> bool {
        true
    }

    fn reassign(&mut self, group: GroupState, workers: &Workers, _: Nanos) -> Option<WorkerId> {
        group.owner?;
        Some(modulo_owner(group.group, workers))
    }
}
