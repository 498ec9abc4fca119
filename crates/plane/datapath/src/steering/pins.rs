//! Single flows pinned to a worker, apart from their group.
//!
//! A pinned flow gets a virtual group of its own, which starts where the flow is now and is moved
//! like any group; to unpin it, the virtual group is moved back to where the hashed group is, and
//! only then forgotten. So pinning reorders as little as moving does.

use std::fmt;

use base::{FlowGroup, FlowHash, WorkerId};
use policy::Refused;

use super::Steering;

impl Steering {
    /// Pins a flow to a worker.
    ///
    /// # Errors
    /// No such worker, too many pins, or a hand-over is under way.
    pub fn pin_flow(
        &mut self,
        flow: u64,
        hash: FlowHash,
        worker: WorkerId,
    ) -> Result<(), PinError> {
        if !self.is_settled() {
            return Err(PinError::Busy);
        }
        let known = self.overrides.find(flow);
        let group = known.or_else(|| self.overrides.insert(flow)).ok_or(PinError::Full)?;
        if let Err(refused) = self.control.pin(group, worker, &self.live) {
            if known.is_none() {
                self.overrides.remove(flow);
            }
            return Err(PinError::Refused(refused));
        }
        self.unpinning.retain(|&(leaving, _)| leaving != flow);
        if let Some(mirror) = &self.owners {
            mirror.pin(flow, hash, group);
        }
        if self.live.entry(group).owner().is_none()
            && let Some(owner) = self.live.entry(self.live.group_of(hash)).owner()
        {
            self.control.assign(group, owner, &mut self.live);
        }
        Ok(())
    }

    /// Lets a flow follow its group again. False when it was not pinned.
    pub fn unpin_flow(&mut self, flow: u64, hash: FlowHash) -> bool {
        let Some(group) = self.overrides.find(flow) else {
            return false;
        };
        let pinned = self.control.unpin(group);
        if pinned {
            self.unpinning.push((flow, hash));
        }
        pinned
    }

    /// Flows that have a virtual group, pinned or on their way back.
    pub fn pinned_flows(&self) -> usize {
        self.overrides.len()
    }

    /// Moves flows that are to be unpinned to where their groups are, and forgets those that are
    /// there.
    pub(super) fn finish_unpinning(&mut self) {
        if self.unpinning.is_empty() || !self.migrate.is_quiet() || !self.evacuation.is_empty() {
            return;
        }
        let mut index = 0;
        while let Some(&(flow, hash)) = self.unpinning.get(index) {
            let hashed = self.live.entry(self.live.group_of(hash)).owner();
            let Some(group) = self.overrides.find(flow) else {
                self.unpinning.swap_remove(index);
                continue;
            };
            let own = self.live.entry(group).owner();
            if let (Some(own), None) = (own, hashed) {
                // The group has no owner yet: it begins where its flow is.
                self.control.assign(self.live.group_of(hash), own, &mut self.live);
                continue;
            }
            if own.is_none() || own == hashed {
                self.forget(flow, group);
                self.unpinning.swap_remove(index);
                continue;
            }
            // Pinned to its home until it has arrived there.
            if let Some(home) = hashed {
                let _ = self.control.pin(group, home, &self.live);
            }
            index += 1;
        }
    }

    fn forget(&mut self, flow: u64, group: FlowGroup) {
        self.control.unpin(group);
        self.control.disown(group, &mut self.live);
        self.overrides.remove(flow);
        if let Some(mirror) = &self.owners {
            mirror.unpin(flow);
        }
    }
}

/// A flow cannot be pinned now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinError {
    /// The table of pinned flows has no place for this one.
    Full,
    /// Groups are moving at this moment.
    Busy,
    /// The request cannot be carried out.
    Refused(Refused),
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str(
                "the table of pinned flows is full: unpin some, or raise `steer.overrides`",
            ),
            Self::Busy => f.write_str("groups are moving at this moment: try again"),
            Self::Refused(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for PinError {}
