//! Connections that stand and find no room: in the backlog of their listener, or for their first
//! ring.

use std::collections::{BTreeMap, VecDeque};

use base::{AppId, SlotId};
use tcp::{FlowId, ListenerId};

/// Those that wait, oldest first.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// By application and slot of the listener.
    pub(super) accepted: BTreeMap<(AppId, SlotId), VecDeque<(FlowId, ListenerId)>>,
    /// Those that were opened here, and wait for a ring: each has its slot already.
    pub(super) opened: VecDeque<FlowId>,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.accepted.is_empty() && self.opened.is_empty()
    }
}
