//! `balanced`: after RSS++. Like sticky, and besides a slow loop measures the load of each worker
//! and moves few groups from those above the mean to those below.
//!
//! The table is seen slice by slice. One pass over it measures; the next pass moves, group by
//! group as they come by with fresh figures, and only groups that fit: none that would put its new
//! worker above the mean or take its old one below it by more than it was above. So a pass cannot
//! overshoot, and two passes cannot throw the same group back and forth.

use base::{FlowGroup, Nanos, WorkerId};

use super::{Census, Change, GroupState, LeastMovement, Steer, Turn, Workers};
use crate::plan::Move;
use crate::sample::LoadSample;
use crate::table::OwnerTable;

/// A worker is left alone while it is within this share of the mean: 1/16. RSS++ uses a few
/// percent; below that the noise of one pass is larger than the gain.
const TOLERANCE_SHIFT: u32 = 4;

/// Groups moved in one pass at most: a hand-over is cheap but not free.
const MOVES_PER_PASS: usize = 128;

/// Packets that a pass must have seen before its figures mean anything.
const PACKETS_MIN: u64 = 1_000;

/// Which pass is under way and what it has found.
#[derive(Debug, Default)]
pub(super) struct Balanced {
    turn: Turn,
    quotas: LeastMovement,
    /// Packets of this pass, by worker id.
    load: Vec<u64>,
    /// Packets above (positive) or below the mean that the last measuring pass found and that
    /// the moving pass has not yet moved. Empty: this pass measures.
    excess: Vec<i64>,
    moves_left: usize,
}

impl Balanced {
    /// A measuring pass has ended: whether the next one has something to move.
    fn weigh(&mut self, workers: &Workers) {
        self.excess.clear();
        self.moves_left = MOVES_PER_PASS;
        let active = workers.active();
        let total: u64 = active.iter().map(|worker| self.load[worker.index()]).sum();
        let mean = total / active.len().max(1) as u64;
        let most = active.iter().map(|worker| self.load[worker.index()]).max().unwrap_or(0);
        if total < PACKETS_MIN || most - mean <= mean >> TOLERANCE_SHIFT {
            return;
        }
        self.excess.resize(self.load.len(), 0);
        for worker in active {
            self.excess[worker.index()] = self.load[worker.index()] as i64 - mean as i64;
        }
    }

    /// The worker furthest below the mean that can take `packets` without passing it.
    fn taker(&self, packets: i64, workers: &Workers) -> Option<WorkerId> {
        let room = |worker: &WorkerId| -self.excess[worker.index()];
        let best = workers.active().iter().copied().max_by_key(room)?;
        (room(&best) >= packets).then_some(best)
    }
}

impl Steer for Balanced {
    fn name(&self) -> &'static str {
        "balanced"
    }

    fn place(&mut self, _: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        self.turn.next(workers)
    }

    fn wants_rewrite(&self, change: Change) -> bool {
        change == Change::Grown
    }

    fn begin_rewrite(&mut self, census: &Census, workers: &Workers) {
        // The figures of the pass under way are about a table that will be gone.
        self.load.clear();
        self.excess.clear();
        self.quotas.begin(census, workers);
    }

    fn reassign(&mut self, group: GroupState, workers: &Workers, _: Nanos) -> Option<WorkerId> {
        self.quotas.reassign(group, workers)
    }

    fn observe(
        &mut self,
        load: &LoadSample,
        table: &OwnerTable,
        workers: &Workers,
        moves: &mut Vec<Move>,
    ) {
        if load.first.0 == 0 || self.load.len() < workers.limit() {
            self.load.clear();
            self.load.resize(workers.limit(), 0);
        }
        let moving = self.excess.len() == workers.limit();
        for (group, seen) in (load.first.0..).map(FlowGroup).zip(&load.groups) {
            let Some(owner) = table.entry(group).plain().filter(|&owner| workers.is_active(owner))
            else {
                continue;
            };
            let packets = i64::from(seen.packets);
            self.load[owner.index()] += u64::from(seen.packets);
            if moving
                && packets > 0
                && self.moves_left > 0
                && self.excess[owner.index()] >= packets
                && let Some(to) = self.taker(packets, workers)
            {
                self.moves_left -= 1;
                self.excess[owner.index()] -= packets;
                self.excess[to.index()] += packets;
                moves.push(Move { group, from: owner, to });
            }
        }
        if load.first.index() + load.groups.len() >= table.len() {
            if moving {
                // What was moved falsifies this pass's figures: measure afresh.
                self.excess.clear();
            } else {
                self.weigh(workers);
            }
        }
    }
}
