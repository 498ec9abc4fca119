//! `queue_delay`: adds a core while queueing delay exceeds the application's limit.
//!
//! Two rules, chosen by the application's own delay. Zero is Shenango's: congested when an item
//! that was in a queue at the tick before is still there. Anything else is Caladan's: congested
//! when the oldest item has waited for that long. A worker that has just been woken is not judged
//! in its first sample: what waits there waited before it could do anything. Cores come back when
//! workers park; this policy never asks for one back.

use base::{Nanos, WorkerId};

use super::sample::{BusyWorker, CoresSample, Progress};
use super::table::Table;
use super::{Allocate, Asks, Saved, SavedAllocate};

/// Where the queues of each worker ended at the tick before.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueDelay {
    /// By worker; `None` until its first sample after a grant.
    ends: Vec<Option<(u32, u32)>>,
}

impl QueueDelay {
    /// Ends of (worker, packets, tasks).
    pub(super) fn restore(ends: &[(u16, u32, u32)]) -> Self {
        let mut policy = Self::default();
        for &(worker, packets, tasks) in ends {
            let id = usize::from(worker);
            policy.ends.resize(policy.ends.len().max(id + 1), None);
            policy.ends[id] = Some((packets, tasks));
        }
        policy
    }
}

impl Allocate for QueueDelay {
    fn name(&self) -> &'static str {
        "queue_delay"
    }

    fn observe(&mut self, sample: &CoresSample, table: &Table, asks: &mut Asks) {
        for busy in &sample.busy {
            let BusyWorker { id, packets, tasks, oldest, .. } = *busy;
            let Some(app) = table.running(id) else { continue };
            let Some(ends) = self.ends.get_mut(id.index()) else { continue };
            let Some(before) = ends.replace((packets.put, tasks.put)) else { continue };
            let congested = match app.terms.queue_delay {
                Nanos::ZERO => stands(before.0, packets) || stands(before.1, tasks),
                most => oldest >= most,
            };
            if congested {
                asks.more(app.terms.id);
            }
        }
    }

    fn granted(&mut self, worker: WorkerId, _: &Table) {
        if let Some(ends) = self.ends.get_mut(worker.index()) {
            *ends = None;
        }
    }

    fn make_room(&mut self, workers: usize, _: usize) {
        self.ends.resize(self.ends.len().max(workers), None);
    }

    fn save(&self) -> SavedAllocate {
        let ends = self.ends.iter().enumerate();
        let known = ends.filter_map(|(id, ends)| ends.map(|(packets, tasks)| (id, packets, tasks)));
        let known = known.map(|(id, packets, tasks)| (id as u16, packets, tasks));
        Saved::QueueDelay(known.collect()).into()
    }
}

/// Whether something that was put in before `end` has not been taken out yet.
#[inline]
fn stands(end: u32, queue: Progress) -> bool {
    // The counters wrap around: `end` is ahead when it is less than half of their range away.
    (end.wrapping_sub(queue.taken) as i32) > 0
}
