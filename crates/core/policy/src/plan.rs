//! What the shell is asked to do. Cleared and reused by the caller; nothing here performs it.

use base::{FlowGroup, WorkerId};
use serde::{Deserialize, Serialize};

use crate::number;

/// The outcome of one control tick.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Groups to hand over one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    /// The shadow table is complete: publish it as the next epoch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub publish: bool,
    /// The table to publish replaces one that nobody read (every worker took any packet), so the
    /// packets of a flow may wait in any ring: no packet may be dispatched by the new table before
    /// every worker has passed its mark.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fence: bool,
}

/// One group changes its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// Which group.
    #[serde(with = "number::group")]
    pub group: FlowGroup,
    /// Who owned it when the plan was made; the shell drops the move when that is no longer true.
    #[serde(with = "number::worker")]
    pub from: WorkerId,
    /// Who is to own it.
    #[serde(with = "number::worker")]
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(flag: &bool) -> bool {
    !flag
}
