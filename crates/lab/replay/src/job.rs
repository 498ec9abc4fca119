//! What the workers of a replay do: look the packet up, compare its number with its flow's.

use base::Nanos;
use datapath::message::Moving;
use datapath::{Job, Verdict};
use shm::Frame;

use crate::packet_tracker::SharedPacketTracker;

/// Notes every packet and answers none.
pub(crate) struct Witness {
    worker: u16,
    tracker: SharedPacketTracker,
}

impl Witness {
    pub(crate) fn new(worker: u16, tracker: SharedPacketTracker) -> Self {
        Self { worker, tracker }
    }
}

impl Job for Witness {
    #[inline]
    fn packet(&mut self, frame: &mut Frame, _: Nanos) -> Verdict {
        self.tracker.borrow_mut().arrived(frame.desc().offset, self.worker);
        Verdict::Consume
    }

    fn detach(&mut self, _: Moving, _: Nanos) -> bool {
        true
    }

    fn attach(&mut self, _: Moving, _: Nanos) {}
}
