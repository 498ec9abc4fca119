//! `least_loaded`: the power of two choices. A new group goes to the less delayed of two workers
//! drawn by lot: nearly as even as asking all of them, at the price of two.

use base::{FlowGroup, Nanos, WorkerId};

use super::{Change, Saved, SavedSteer, Steer, Workers};

/// The state of the lottery (xorshift64*; never zero).
#[derive(Debug)]
pub(super) struct LeastLoaded {
    lots: u64,
}

impl LeastLoaded {
    pub(super) fn restore(lots: u64) -> Self {
        Self { lots }
    }

    pub(super) fn new(seed: u64) -> Self {
        Self { lots: seed | 1 }
    }

    fn draw(&mut self, workers: &Workers) -> WorkerId {
        self.lots ^= self.lots >> 12;
        self.lots ^= self.lots << 25;
        self.lots ^= self.lots >> 27;
        let lot = self.lots.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        let active = workers.active();
        active[((lot * active.len() as u64) >> 32) as usize]
    }
}

impl Steer for LeastLoaded {
    fn name(&self) -> &'static str {
        "least_loaded"
    }

    fn save(&self) -> Option<SavedSteer> {
        Some(Saved::LeastLoaded(self.lots).into())
    }

    fn place(&mut self, _: FlowGroup, workers: &Workers, _: Nanos) -> WorkerId {
        let (one, other) = (self.draw(workers), self.draw(workers));
        if load(other, workers) < load(one, workers) { other } else { one }
    }

    fn wake(&mut self, _: FlowGroup, owner: WorkerId, workers: &Workers, _: Nanos) -> WorkerId {
        // The owner is one of the two: only a better worker is worth a hand-over.
        let other = self.draw(workers);
        if load(other, workers) < load(owner, workers) { other } else { owner }
    }

    fn wants_rewrite(&self, _: Change) -> bool {
        false
    }
}

fn load(worker: WorkerId, workers: &Workers) -> (Nanos, u32) {
    (workers.delay(worker), workers.queued(worker))
}
