//! How a worker's queue stands: what is in it, and for how long.

use base::Nanos;
use policy::WorkerSample;
use policy::cores::Progress;

use super::{Ends, Side, WorkerQueue, believed};

impl WorkerQueue {
    /// How far its queue has come.
    #[inline]
    pub(crate) fn progress(&self) -> Progress {
        match &self.ends {
            Ends::Thread(ends) => {
                let put = ends.to_worker.produced() as u32;
                Progress { put, taken: put.wrapping_sub(ends.to_worker.len() as u32) }
            }
            Ends::App { worker_queue, .. } => {
                let put = worker_queue.produced();
                Progress { put, taken: put.wrapping_sub(worker_queue.queued_now()) }
            }
        }
    }

    /// Packets and messages that the worker has not completed, or at least not taken.
    pub(crate) fn queued(&self) -> usize {
        match &self.ends {
            Ends::Thread(ends) => ends.to_worker.len(),
            Ends::App { worker_queue, .. } => worker_queue.queued_seen(),
        }
    }

    /// The state of the queue. The delay is the age of the oldest position that was seen at an
    /// earlier sample and is still not consumed (Caladan's approximation): at least that long has
    /// something waited.
    pub(crate) fn sample(&mut self, side: &mut Side, now: Nanos) -> WorkerSample {
        let (queued, produced) = match &mut self.ends {
            Ends::Thread(ends) => (ends.to_worker.len(), ends.to_worker.produced() as u32),
            // A worker that has taken everything is not asked again: a cache line each for nothing.
            Ends::App { worker_queue, .. } if worker_queue.queued_seen() == 0 => {
                (0, worker_queue.produced())
            }
            Ends::App { worker_queue, .. } => {
                let queued = believed(worker_queue.queued(), side).unwrap_or(0);
                (queued, worker_queue.produced())
            }
        };
        let consumed = produced.wrapping_sub(queued as u32);
        if queued == 0 || consumed.wrapping_sub(self.sampled_position) as i32 >= 0 {
            self.sampled_position = produced;
            self.sampled_at = now;
        }
        let delay = if queued == 0 { Nanos::ZERO } else { now.since(self.sampled_at) };
        if let Some(side) = side
            && !self.is_excused
        {
            side.waited(delay.min(now.since(self.blamed_from)));
        }
        WorkerSample { id: self.id, queued: queued as u32, delay }
    }
}
