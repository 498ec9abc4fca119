//! `hybrid`: the paper's future work. Modulo while a group is cold, sticky once it repeats, so that
//! short flows spread without memory and only flows that last are worth their affinity.

use base::{FlowGroup, Nanos, WorkerId};

use super::{
    Census, Change, GroupState, LeastMovement, Saved, SavedSteer, Steer, Workers, modulo_owner,
};
use crate::plan::Move;
use crate::sample::LoadSample;
use crate::table::OwnerTable;

/// Packets after which a group counts as warm: a request and its retry are still cold.
const WARM_PACKETS: u8 = 3;

/// How warm each group is, and the quotas of the rewrite under way.
#[derive(Debug)]
pub(super) struct Hybrid {
    /// Packets seen, saturating; back to zero when the group has aged.
    packets: Vec<u8>,
    quotas: LeastMovement,
}

impl Hybrid {
    pub(super) fn restore(packets: Vec<u8>) -> Self {
        Self { packets, quotas: LeastMovement::default() }
    }

    pub(super) fn new(groups: usize) -> Self {
        Self { packets: vec![0; groups], quotas: LeastMovement::default() }
    }
}

impl Steer for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::Hybrid(self.packets.clone()).into())
    }

    fn place(&mut self, group: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        if let Some(packets) = self.packets.get_mut(group.index()) {
            *packets = 0;
        }
        modulo_owner(group, workers)
    }

    fn wake(&mut self, group: FlowGroup, _: WorkerId, workers: &Workers, now: Nanos) -> WorkerId {
        // Who rests for long is cold again.
        self.place(group, workers, now)
    }

    fn wants_rewrite(&self, change: Change) -> bool {
        change == Change::Grown
    }

    fn begin_rewrite(&mut self, census: &Census, workers: &Workers) {
        self.quotas.begin(census, workers);
    }

    fn reassign(&mut self, group: GroupState, workers: &Workers, _: Nanos) -> Option<WorkerId> {
        group.owner?;
        let packets = self.packets.get(group.group.index()).copied().unwrap_or(0);
        if packets >= WARM_PACKETS {
            self.quotas.reassign(group, workers)
        } else {
            Some(modulo_owner(group.group, workers))
        }
    }

    fn observe(&mut self, load: &LoadSample, _: &OwnerTable, _: &Workers, _: &mut Vec<Move>) {
        let seen = self.packets.iter_mut().skip(load.first.index());
        for (packets, group) in seen.zip(&load.groups) {
            *packets = packets.saturating_add(u8::try_from(group.packets).unwrap_or(u8::MAX));
        }
    }
}
