//! The workers as a policy sees them: who is there, and how full they are.

use base::{Nanos, WorkerId};

use crate::sample::{CoreSample, WorkerSample};

/// The workers that may be given groups, as last measured.
#[derive(Clone, Debug, Default)]
pub struct Workers {
    /// Ascending.
    active: Vec<WorkerId>,
    /// By worker id.
    delay: Vec<Nanos>,
    queued: Vec<u32>,
    is_active: Vec<bool>,
}

impl Workers {
    /// The active workers, ascending by id. Never empty while packets are placed.
    #[inline]
    pub fn active(&self) -> &[WorkerId] {
        &self.active
    }

    /// Whether the worker may be given groups.
    #[inline]
    pub fn is_active(&self, worker: WorkerId) -> bool {
        self.is_active.get(worker.index()).copied().unwrap_or(false)
    }

    /// How long the oldest packet in the worker's ring has waited; zero when nothing is known.
    #[inline]
    pub fn delay(&self, worker: WorkerId) -> Nanos {
        self.delay.get(worker.index()).copied().unwrap_or(Nanos::ZERO)
    }

    /// Packets in its ring at the last sample.
    #[inline]
    pub fn queued(&self, worker: WorkerId) -> u32 {
        self.queued.get(worker.index()).copied().unwrap_or(0)
    }

    /// A set of active workers.
    pub fn of(active: &[WorkerId]) -> Self {
        let mut workers = Self::default();
        workers.set_active(active);
        workers
    }

    pub(crate) fn set_active(&mut self, active: &[WorkerId]) {
        self.active.clear();
        self.active.extend_from_slice(active);
        self.active.sort_unstable();
        self.active.dedup();
        self.is_active.fill(false);
        let len = self.active.last().map_or(0, |last| last.index() + 1).max(self.is_active.len());
        self.is_active.resize(len, false);
        self.delay.resize(len, Nanos::ZERO);
        self.queued.resize(len, 0);
        for worker in &self.active {
            self.is_active[worker.index()] = true;
        }
    }

    /// As [`crate::record::Snapshot`] has it: one sample for each id ever used, by ascending id.
    pub(crate) fn restore(active: &[WorkerId], samples: &[WorkerSample]) -> Self {
        let mut workers = Self {
            is_active: vec![false; samples.len()],
            delay: samples.iter().map(|sample| sample.delay).collect(),
            queued: samples.iter().map(|sample| sample.queued).collect(),
            ..Self::default()
        };
        workers.set_active(active);
        workers
    }

    /// What [`Workers::restore`] takes.
    pub(crate) fn samples(&self) -> impl Iterator<Item = WorkerSample> {
        let ids = (0..self.limit() as u16).map(WorkerId);
        ids.map(|id| WorkerSample { id, queued: self.queued(id), delay: self.delay(id) })
    }

    pub(crate) fn sample(&mut self, core: &CoreSample) {
        for worker in &core.workers {
            if let Some(delay) = self.delay.get_mut(worker.id.index()) {
                *delay = worker.delay;
                self.queued[worker.id.index()] = worker.queued;
            }
        }
    }

    /// Ids are smaller than this.
    pub(crate) fn limit(&self) -> usize {
        self.is_active.len()
    }
}
