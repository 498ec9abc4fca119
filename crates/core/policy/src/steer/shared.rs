//! `shared`: scale-up. One queue in effect, any worker; for comparison, and for work without flow
//! state. Packets of a flow may overtake each other: that is the price of this policy.

use base::{FlowGroup, Nanos, WorkerId};

use super::{Change, Saved, SavedSteer, Steer, Workers};

/// The shell picks the shortest queue for each packet; the table stays as it was.
#[derive(Debug)]
pub(super) struct Shared;

impl Steer for Shared {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::Shared.into())
    }

    fn place(&mut self, _: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        let shortest = workers.active().iter().min_by_key(|&&worker| workers.queued(worker));
        *shortest.expect("the caller places nothing while no worker is active")
    }

    fn wants_rewrite(&self, _: Change) -> bool {
        false
    }

    fn shares_queue(&self) -> bool {
        true
    }
}
