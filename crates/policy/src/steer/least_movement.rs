//! The least movement that restores balance: what sticky, prefilled, hybrid and balanced share.
//!
//! Shenango's modulo moves 80 % of the flows from 4 workers to 5; a per-flow table moves none and
//! leaves the new worker without work. The aim is between: every worker ends with its quota of
//! groups, and only what is above a quota moves. Groups driven away from a worker that left go
//! home first when it returns, so a short absence displaces nothing for good.

use base::WorkerId;

use super::{GroupState, Workers};

/// What the table held when a rewrite began, by worker id. Idle groups of active workers are not
/// counted: they stay where they are and are placed anew when they wake.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Groups that the worker owns.
    pub owned: Vec<u32>,
    /// Of these: groups whose home is another, active worker.
    pub going_home: Vec<u32>,
    /// Groups whose home this worker is and that another one owns.
    pub coming_home: Vec<u32>,
}

impl Census {
    pub(crate) fn reset(&mut self, workers: usize) {
        let Self { owned, going_home, coming_home } = self;
        for counts in [owned, going_home, coming_home] {
            counts.clear();
            counts.resize(workers, 0);
        }
    }

    pub(crate) fn count(&mut self, group: GroupState, workers: &Workers) {
        let Some(owner) = group.owner else { return };
        let Some(owned) = self.owned.get_mut(owner.index()) else {
            return;
        };
        *owned += 1;
        if let Some(home) = group.home.filter(|&home| home != owner && workers.is_active(home)) {
            self.going_home[owner.index()] += 1;
            self.coming_home[home.index()] += 1;
        }
    }
}

/// Who must give how many groups, and who is to get them.
#[derive(Clone, Debug, Default)]
pub struct LeastMovement {
    /// Groups above quota, by worker id.
    surplus: Vec<u32>,
    /// Groups below quota, by worker id.
    wanting: Vec<u32>,
    /// Position among the active workers where the next wanting one is looked for.
    cursor: usize,
}

impl LeastMovement {
    /// Works the quotas out.
    pub fn begin(&mut self, census: &Census, workers: &Workers) {
        let Self { surplus, wanting, cursor } = self;
        *cursor = 0;
        for counts in [&mut *surplus, &mut *wanting] {
            counts.clear();
            counts.resize(census.owned.len(), 0);
        }
        let total: u32 = census.owned.iter().sum();
        let count = workers.active().len().max(1) as u32;
        // One group above an uneven share is not worth a move.
        let (least, most) = (total / count, total.div_ceil(count));
        for worker in workers.active() {
            let at = worker.index();
            let holds = census.owned[at] - census.going_home[at] + census.coming_home[at];
            surplus[at] = holds.saturating_sub(most);
            wanting[at] = least.saturating_sub(holds);
        }
    }

    /// The owner of a group in the new table.
    pub fn reassign(&mut self, group: GroupState, workers: &Workers) -> Option<WorkerId> {
        let owner = group.owner?;
        if let Some(home) = group.home.filter(|&home| home != owner && workers.is_active(home)) {
            return Some(home);
        }
        if workers.is_active(owner) {
            let surplus = &mut self.surplus[owner.index()];
            if *surplus == 0 {
                return Some(owner);
            }
            *surplus -= 1;
            return Some(self.next_wanting(workers).unwrap_or(owner));
        }
        // The owner is leaving. Rounding, or a group placed since the census, may leave nobody
        // wanting: then anybody takes it, in turn.
        self.next_wanting(workers).or_else(|| {
            self.cursor += 1;
            workers.active().get(self.cursor % workers.active().len().max(1)).copied()
        })
    }

    fn next_wanting(&mut self, workers: &Workers) -> Option<WorkerId> {
        let active = workers.active();
        for _ in 0..active.len() {
            self.cursor = (self.cursor + 1) % active.len();
            let worker = active[self.cursor];
            let wanting = &mut self.wanting[worker.index()];
            if *wanting > 0 {
                *wanting -= 1;
                return Some(worker);
            }
        }
        None
    }
}
