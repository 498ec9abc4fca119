//! What UDP sockets have to send: who waits for a turn, and which datagrams for their next hop.

use std::collections::BTreeSet;

use base::{AppId, SlotId};

use super::rounds::Rounds;
use super::unresolved::Unresolved;

/// What UDP sockets of a worker have to send.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Those that have written something.
    pub(super) waiting: Rounds<(AppId, SlotId)>,
    /// Those that end when what they have written has left.
    pub(super) ending: BTreeSet<(AppId, SlotId)>,
    /// Datagrams that wait for their next hop.
    pub(super) unresolved: Unresolved,
}
