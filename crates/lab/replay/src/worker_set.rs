//! The workers of a replay, all on the loop's thread, each at a pace of its own.

use std::sync::Arc;

use base::{Nanos, WorkerId};
use datapath::{Dispatcher, Worker};
use port::Port;
use shm::Doorbell;

use crate::Error;
use crate::job::Witness;
use crate::packet_tracker::SharedPacketTracker;

/// The workers.
pub(crate) struct WorkerSet {
    /// By id; a worker that was told to leave stays until it has retired.
    workers: Vec<Option<Worker<Witness>>>,
    /// The ids below this are there and not leaving.
    count: u16,
    tracker: SharedPacketTracker,
    random: u64,
}

impl WorkerSet {
    pub(crate) fn new(tracker: SharedPacketTracker, seed: u64) -> Self {
        Self { workers: Vec::new(), count: 0, tracker, random: seed }
    }

    /// Makes it `count` workers: those with the highest ids come and go.
    ///
    /// # Errors
    /// No id is free, which is so only while earlier leavers have not retired.
    pub(crate) fn resize<P: Port>(
        &mut self,
        dispatcher: &mut Dispatcher<P>,
        count: u16,
    ) -> Result<(), Error> {
        for id in count..self.count {
            dispatcher.steering_mut().remove_worker(WorkerId(id));
        }
        for _ in self.count..count {
            let spawned = dispatcher.add_worker(Arc::new(Doorbell::new()), Arc::new(|| ()));
            let spawned =
                spawned.ok_or_else(|| Error::Failed("every worker id is in use".to_owned()))?;
            let id = spawned.id;
            let place = id.index();
            if self.workers.len() <= place {
                self.workers.resize_with(place + 1, || None);
            }
            self.workers[place] = Some(spawned.employ(Witness::new(id.0, self.tracker.clone())));
        }
        self.count = count;
        Ok(())
    }

    /// Whether a worker that was told to leave has not retired.
    pub(crate) fn has_leavers(&self) -> bool {
        self.workers.iter().flatten().count() > usize::from(self.count)
    }

    /// One turn for about half of the workers, drawn by lot: queues grow and shrink as they do when
    /// each has a core of its own, and hand-overs meet packets in them.
    #[inline]
    pub(crate) fn some_step(&mut self, now: Nanos) {
        let lot = self.draw();
        self.step(now, |index| lot >> (index % 64) & 1 != 0);
    }

    /// One turn for everybody.
    pub(crate) fn all_step(&mut self, now: Nanos) {
        self.step(now, |_| true);
    }

    #[inline]
    fn step(&mut self, now: Nanos, takes_part: impl Fn(usize) -> bool) {
        for (index, place) in self.workers.iter_mut().enumerate() {
            if takes_part(index)
                && let Some(worker) = place
                && worker.has_work(now)
                && worker.step(now).retired
            {
                *place = None;
            }
        }
    }

    /// SplitMix64 (Steele, Lea, Flood, 2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}
