//! What the shell is asked to do. Cleared and reused by the caller; nothing here performs it.

use base::{FlowGroup, WorkerId};

/// The outcome of one control tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Groups to hand over one by one.
    pub moves: Vec<Move>,
    /// The shadow table is complete: publish it as the next epoch.
    pub publish: bool,
    /// The table to publish replaces one that nobody read (every worker took any packet), so the
    /// packets of a flow may wait in any ring: no packet may be dispatched by the new table before
    /// every worker has passed its mark.
    pub fence: bool,
}

/// One group changes its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which group.
    pub group: FlowGroup,
    /// Who owned it when the plan was made; the shell drops the move when that is no longer true.
    pub from: WorkerId,
    /// Who is to own it.
    pub to: WorkerId,
}

impl Plan {
    /// Empties the plan and keeps its memory.
    pub fn clear(&mut self) {
        let Self { moves, publish, fence } = self;
        moves.clear();
        *publish = false;
        *fence = false;
    }
}
