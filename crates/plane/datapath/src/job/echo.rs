//! UDP echo: every packet goes back where it came from.

use base::Nanos;
use shm::Frame;
use wire::reply;

use super::{Job, Refusal, Verdict};
use crate::message::Moving;

/// Holds nothing, so a move finds nothing to give up.
#[derive(Debug, Default)]
pub struct Echo;

impl Job for Echo {
    #[inline]
    fn packet(&mut self, frame: &mut Frame, _: Nanos) -> Verdict {
        let offsets = (frame.meta().l3_offset, frame.meta().l4_offset);
        match reply::turn_around(frame.bytes_mut(), offsets, None) {
            Some(length) if frame.set_len(usize::from(length)) => Verdict::Transmit,
            _ => Verdict::Refuse(Refusal::NotUdp),
        }
    }

    fn detach(&mut self, _: Moving, _: Nanos) -> bool {
        true
    }

    fn attach(&mut self, _: Moving, _: Nanos) {}
}
