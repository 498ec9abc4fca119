//! `balanced`: after RSS++. Like sticky, and besides a slow loop measures the load of each worker
//! and moves few groups from those above the mean to those below.
//!
//! The table is seen slice by slice. Some passes over it measure, until chance can no longer be
//! mistaken for imbalance; then one pass moves, group by group as they come by with fresh figures,
//! and only groups that fit: none that would put its new worker above the mean or take its old one
//! below it by more than it was above. So a pass cannot overshoot, and two passes cannot throw the
//! same group back and forth.

use base::{FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::{Census, Change, GroupState, LeastMovement, Saved, SavedSteer, Steer, Turn, Workers};
use crate::plan::Move;
use crate::sample::LoadSample;
use crate::table::OwnerTable;

/// A worker is left alone while it is within this share of the mean: 1/16. RSS++ uses a few
/// percent; below that the noise of one pass is larger than the gain.
const TOLERANCE_SHIFT: u32 = 4;

/// Groups moved in one pass at most: a hand-over is cheap but not free.
const MOVES_PER_PASS: usize = 128;

/// Standard deviations of a Poisson count that are taken for chance. With five, 64 evenly loaded
/// workers see a false alarm in one of 50,000 measurements.
const CHANCE: u64 = 5;

/// Packets per worker at which `CHANCE` deviations are below the tolerance: 5 x sqrt(8192) is 1/18
/// of 8192. Measuring for longer would only be slower.
const PACKETS_PER_WORKER: u64 = 8192;

/// Passes that one measurement takes at most: with less load than that, only a gross imbalance is
/// worth anything.
const PASSES_MAX: u64 = 64;

/// Which pass is under way and what it has found.
#[derive(Debug, Default)]
pub(super) struct Balanced {
    turn: Turn,
    quotas: LeastMovement,
    /// Packets of this measurement, by worker id. Empty: waiting for the table's start.
    load: Vec<u64>,
    /// Whole passes in `load`.
    passes: u64,
    /// The group with which the next slice must start, or the pass has a hole.
    next: usize,
    /// Packets a pass above (positive) or below the mean that the last measurement found and
    /// that the moving pass has not yet moved. Empty: this pass measures.
    excess: Vec<i64>,
    moves_left: usize,
}

/// What a recording keeps of it: everything but the quotas of a rewrite, which begins anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figures {
    turn: Turn,
    load: Vec<u64>,
    passes: u64,
    next: u32,
    excess: Vec<i64>,
    moves_left: u32,
}

impl Figures {
    /// Whether they can be true: no sum of these and of any load still to come overflows.
    pub(super) fn are_possible(&self) -> bool {
        const LOAD_MAX: u64 = 1 << 48;
        self.passes < PASSES_MAX
            && self.load.len() < usize::from(WorkerId::LIMIT)
            && self.load.iter().all(|&load| load <= LOAD_MAX)
            && (self.excess.is_empty() || self.excess.len() == self.load.len())
            && self.excess.iter().all(|excess| excess.unsigned_abs() <= LOAD_MAX)
    }
}

impl From<Figures> for Balanced {
    fn from(figures: Figures) -> Self {
        let Figures { turn, load, passes, next, excess, moves_left } = figures;
        Self {
            turn,
            quotas: LeastMovement::default(),
            load,
            passes,
            next: next as usize,
            excess,
            moves_left: moves_left as usize,
        }
    }
}

impl Balanced {
    fn save_figures(&self) -> Figures {
        let Self { turn, quotas: _, load, passes, next, excess, moves_left } = self;
        Figures {
            turn: turn.clone(),
            load: load.clone(),
            passes: *passes,
            next: *next as u32,
            excess: excess.clone(),
            moves_left: *moves_left as u32,
        }
    }

    fn start_over(&mut self) {
        self.load.clear();
        self.excess.clear();
        self.passes = 0;
    }

    /// A measuring pass has ended: whether the next one has something to move.
    fn weigh(&mut self, workers: &Workers) {
        self.passes += 1;
        let active = workers.active();
        let load = |worker: &WorkerId| self.load[worker.index()];
        let mean = active.iter().map(load).sum::<u64>() / active.len().max(1) as u64;
        if mean < PACKETS_PER_WORKER && self.passes < PASSES_MAX {
            return;
        }
        let most = active.iter().map(load).max().unwrap_or(0);
        let chance = CHANCE * mean.isqrt();
        let passes = self.passes as i64;
        let excess = |load: u64| (load as i64 - mean as i64) / passes;
        if most > mean + chance.max(mean >> TOLERANCE_SHIFT) {
            self.excess.resize(self.load.len(), 0);
            for worker in active {
                self.excess[worker.index()] = excess(self.load[worker.index()]);
            }
            self.moves_left = MOVES_PER_PASS;
        }
        self.load.fill(0);
        self.passes = 0;
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

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::Balanced(self.save_figures()).into())
    }

    fn place(&mut self, _: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        self.turn.next(workers)
    }

    fn wants_rewrite(&self, change: Change) -> bool {
        change == Change::Grown
    }

    fn begin_rewrite(&mut self, census: &Census, workers: &Workers) {
        // The figures of the pass under way are about a table that will be gone.
        self.start_over();
        self.quotas.begin(census, workers);
    }

    fn reassign(&mut self, group: GroupState, workers: &Workers, _: Nanos) -> Option<WorkerId> {
        self.quotas.reassign(group, workers)
    }

    fn resume(&mut self) {
        self.start_over();
    }

    fn observe(
        &mut self,
        load: &LoadSample,
        table: &OwnerTable,
        workers: &Workers,
        moves: &mut Vec<Move>,
    ) {
        let first = load.first.index();
        if self.load.len() != workers.limit() || first != self.next {
            // Slices were lost to a rewrite, or workers came: half a pass is no measurement.
            self.start_over();
            if first != 0 {
                return;
            }
            self.load.resize(workers.limit(), 0);
        }
        let moving = !self.excess.is_empty();
        for (group, seen) in (load.first.0..).map(FlowGroup).zip(&load.groups) {
            let Some(owner) = table.entry(group).plain().filter(|&owner| workers.is_active(owner))
            else {
                continue;
            };
            if !moving {
                self.load[owner.index()] += u64::from(seen.packets);
                continue;
            }
            let packets = i64::from(seen.packets);
            if packets > 0
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
        self.next = first + load.groups.len();
        if self.next < table.len() {
            return;
        }
        self.next = 0;
        if moving {
            self.excess.clear();
        } else {
            self.weigh(workers);
        }
    }
}
