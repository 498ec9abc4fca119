//! `calisto`: the paper's policy. A group's first packet places it on the next worker in turn, and
//! there it stays while the worker lives.
//!
//! Growth moves nothing, so a new worker gets only new groups: affinity without balance.

use base::{FlowGroup, Nanos, WorkerId};

use super::{Change, Saved, SavedSteer, Steer, Turn, Workers};

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Calisto {
    turn: Turn,
}

impl From<Turn> for Calisto {
    fn from(turn: Turn) -> Self {
        Self { turn }
    }
}

impl Steer for Calisto {
    fn name(&self) -> &'static str {
        "calisto"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::Calisto(self.turn.clone()).into())
    }

    fn place(&mut self, _: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        self.turn.next(workers)
    }

    fn wants_rewrite(&self, _: Change) -> bool {
        false
    }
}
