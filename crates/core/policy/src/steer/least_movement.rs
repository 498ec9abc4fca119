//! The least movement that restores balance: what sticky, prefilled, hybrid and balanced share.
//!
//! Shenango's modulo moves 80 % of the flows from 4 workers to 5; a per-flow table moves none and
//! leaves the new worker without work. The aim is between: every worker ends with its quota of
//! groups, and only what is above a quota moves, idle groups first. Groups driven away from a
//! worker that left go home first when it returns, so an absence displaces nothing for good.
//! What comes home to a worker is not given on: where workers return and others come in one change,
//! a returning one may end above its quota.

use base::WorkerId;

use super::{GroupState, Workers};

/// What the table held when a rewrite began, by worker id.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Groups that the worker owns.
    pub owned: Vec<u32>,
    /// Of these: groups whose home is another, active worker.
    pub going_home: Vec<u32>,
    /// Groups whose home this worker is and that another one owns.
    pub coming_home: Vec<u32>,
    /// Of `owned` without `going_home`: groups that have been idle for long.
    pub idle: Vec<u32>,
    /// Of the same, without the idle ones: groups whose home is a worker that is away.
    pub displaced: Vec<u32>,
}

impl Census {
    pub(crate) fn reset(&mut self, workers: usize) {
        let Self { owned, going_home, coming_home, idle, displaced } = self;
        for counts in [owned, going_home, coming_home, idle, displaced] {
            counts.clear();
            counts.resize(workers, 0);
        }
    }

    pub(crate) fn count(&mut self, group: GroupState, workers: &Workers) {
        let Some(owner) = group.owner else { return };
        let at = owner.index();
        let Some(owned) = self.owned.get_mut(at) else {
            return;
        };
        *owned += 1;
        if let Some(home) = group.way_home(workers) {
            self.going_home[at] += 1;
            self.coming_home[home.index()] += 1;
        } else if group.idle {
            self.idle[at] += 1;
        } else if group.is_displaced() {
            self.displaced[at] += 1;
        }
    }
}

/// Groups above a worker's quota, by what it costs to move them: it gives them in this order.
#[derive(Clone, Copy, Debug, Default)]
struct Surplus {
    /// Idle groups: nobody waits for their next packet.
    idle: u32,
    /// Groups that are not at home here either.
    displaced: u32,
    others: u32,
}

/// Who must give how many groups, and who is to get them.
#[derive(Clone, Debug, Default)]
pub struct LeastMovement {
    /// By worker id.
    surplus: Vec<Surplus>,
    /// Workers below their quota and by how many groups; those that have enough drop out, so
    /// that finding the next one never means a search.
    takers: Vec<(WorkerId, u32)>,
    /// Whose turn it is among the takers.
    turn: usize,
    /// Whose turn it is among all, once nobody is below quota.
    spare: usize,
}

impl LeastMovement {
    /// Works the quotas out.
    pub fn begin(&mut self, census: &Census, workers: &Workers) {
        let Self { surplus, takers, turn, spare } = self;
        (*turn, *spare) = (0, 0);
        surplus.clear();
        surplus.resize(census.owned.len(), Surplus::default());
        takers.clear();
        let total: u32 = census.owned.iter().sum();
        let count = workers.active().len().max(1) as u32;
        // One group above an uneven share is not worth a move.
        let (least, most) = (total / count, total.div_ceil(count));
        for &worker in workers.active() {
            let at = worker.index();
            let holds = census.owned[at] - census.going_home[at] + census.coming_home[at];
            let above = holds.saturating_sub(most);
            let idle = above.min(census.idle[at]);
            let displaced = (above - idle).min(census.displaced[at]);
            surplus[at] = Surplus { idle, displaced, others: above - idle - displaced };
            if holds < least {
                takers.push((worker, least - holds));
            }
        }
    }

    /// The owner of a group in the new table.
    #[inline]
    pub fn reassign(&mut self, group: GroupState, workers: &Workers) -> Option<WorkerId> {
        let owner = group.owner?;
        if let Some(home) = group.way_home(workers) {
            return Some(home);
        }
        if !workers.is_active(owner) {
            // Rounding, or a group placed since the census, may leave nobody below quota.
            return self.next_taker().or_else(|| self.next_spare(workers));
        }
        let surplus = &mut self.surplus[owner.index()];
        let kind = if group.idle {
            &mut surplus.idle
        } else if group.is_displaced() {
            &mut surplus.displaced
        } else {
            &mut surplus.others
        };
        if *kind == 0 {
            return Some(owner);
        }
        *kind -= 1;
        Some(self.next_taker().unwrap_or(owner))
    }

    #[inline]
    fn next_taker(&mut self) -> Option<WorkerId> {
        if self.turn >= self.takers.len() {
            self.turn = 0;
        }
        let (worker, wants) = self.takers.get_mut(self.turn)?;
        let worker = *worker;
        *wants -= 1;
        if *wants == 0 {
            self.takers.swap_remove(self.turn);
        } else {
            self.turn += 1;
        }
        Some(worker)
    }

    fn next_spare(&mut self, workers: &Workers) -> Option<WorkerId> {
        self.spare += 1;
        let active = workers.active();
        active.get(self.spare % active.len().max(1)).copied()
    }
}
