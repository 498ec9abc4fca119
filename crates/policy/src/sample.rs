//! What the shell has measured: the only eyes of a policy.
//!
//! Plain data, so that a live daemon can record samples and a simulator can replay them.

use base::{FlowGroup, Nanos, WorkerId};

/// The active workers at one control tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreSample {
    /// When it was taken.
    pub now: Nanos,
    /// Active workers only, by ascending id.
    pub workers: Vec<WorkerSample>,
}

/// One active worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSample {
    /// Which.
    pub id: WorkerId,
    /// Packets in its ring.
    pub queued: u32,
    /// How long the oldest of them has waited, at least.
    pub delay: Nanos,
}

/// The load of some consecutive groups since they were looked at last: a slice of the table, so
/// that no step is long. At most [`GROUPS_PER_STEP`] groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadSample {
    /// When it was taken.
    pub now: Nanos,
    /// The first group of the slice.
    pub first: FlowGroup,
    /// One entry for each group from `first` on.
    pub groups: Vec<GroupLoad>,
}

/// One group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLoad {
    /// Packets since the last look.
    pub packets: u32,
    /// Time since the last packet; [`Nanos::FAR_FUTURE`] when there never was one.
    pub idle: Nanos,
}

/// Groups that one control step touches at most: a step of 4096 costs 10 to 30 us, so the data
/// loop is never away from its queues for longer than that.
pub const GROUPS_PER_STEP: usize = 4096;
