//! Swallows every packet: what remains is the cost of getting it here.

use base::Nanos;
use shm::Frame;

use super::{Job, Verdict};
use crate::message::Moving;

/// Holds nothing, so a move finds nothing to give up.
#[derive(Debug, Default)]
pub struct Sink;

impl Job for Sink {
    #[inline]
    fn packet(&mut self, _: &mut Frame, _: Nanos) -> Verdict {
        Verdict::Consume
    }

    fn detach(&mut self, _: Moving, _: Nanos) -> bool {
        true
    }

    fn attach(&mut self, _: Moving, _: Nanos) {}
}
