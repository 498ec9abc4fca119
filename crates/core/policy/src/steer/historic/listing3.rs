//! `listing3`: the rule that the Calisto paper prints as Listing 3. A flow's first packet gives it
//! to the next core, and there it stays.
//!
//! It differs from `calisto` in the turn: when it has come to the last core it begins anew with the
//! second one, so that the first gets a flow once. What the listing does besides, a call for
//! another core with every packet and two looks into a table of all flows, is no decision about
//! flows, and the simulator charges for it.

use base::{FlowGroup, Nanos, WorkerId};

use crate::steer::{Change, Saved, SavedSteer, Steer, Workers};

/// Whose turn is next, by rank among the active workers.
#[derive(Debug, Default)]
pub(in crate::steer) struct Listing3 {
    next: usize,
}

impl From<usize> for Listing3 {
    fn from(next: usize) -> Self {
        Self { next }
    }
}

impl Steer for Listing3 {
    fn name(&self) -> &'static str {
        "listing3"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::Listing3(self.next).into())
    }

    fn place(&mut self, _: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        let active = workers.active();
        if self.next >= active.len() {
            self.next = usize::from(active.len() > 1);
        }
        let worker = active[self.next];
        self.next += 1;
        worker
    }

    fn wants_rewrite(&self, _: Change) -> bool {
        false
    }
}
