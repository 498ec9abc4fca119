//! A segment on its way, and what is known of it.

use std::fmt;

use base::Nanos;

use super::NONE;
use super::ways::Ways;
use crate::Seq;

/// A segment on its way.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) start: Seq,
    /// Behind its last number, that of a FIN included.
    pub(crate) end: Seq,
    /// When it was sent last.
    pub(crate) at: Nanos,
    pub(super) marks: u8,
    /// See `index.rs`.
    pub(super) level: u8,
    pub(super) prev: u32,
    pub(super) jump: u32,
    /// Neighbours in its chain.
    pub(super) left: u32,
    /// Of one that was reported: one behind it, with nothing but reported ones between the two.
    pub(super) right: u32,
    /// Of the flow's first record.
    pub(super) ways: Ways,
}
/// The peer has it, out of order.
pub(super) const SACKED: u8 = 1;
/// It counts as lost.
pub(super) const LOST: u8 = 2;
/// It was lost and is on its way again.
pub(super) const AGAIN: u8 = 4;
/// It was sent more than once.
pub(super) const EVER_AGAIN: u8 = 8;
/// It ends what the application had written.
pub(super) const PUSHED: u8 = 16;
/// It counted as lost in a recovery that was taken back. Only a timeout finds it lost once more, as
/// in Linux: else a peer could have the same records marked and cleared again and again.
pub(super) const PARDONED: u8 = 32;
/// It is in the ways through its flow's records. Only one that is alone and to which nothing has
/// happened may not be, so that requests and responses do not pay for them.
pub(super) const LINKED: u8 = 64;

impl Sent {
    pub(crate) const fn new(start: Seq, end: Seq, at: Nanos, is_pushed: bool) -> Self {
        let marks = if is_pushed { PUSHED } else { 0 };
        let (prev, jump, left, right) = (NONE, NONE, NONE, NONE);
        Self { start, end, at, marks, level: 0, prev, jump, left, right, ways: Ways::EMPTY }
    }

    pub(super) const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Whether it bears PSH.
    pub(crate) const fn is_pushed(&self) -> bool {
        self.has(PUSHED)
    }

    /// Whether it waits to be sent again: it is in the chain of those that do.
    pub(crate) const fn is_due(&self) -> bool {
        self.has(LOST) && !self.has(AGAIN)
    }

    /// Whether RACK counts it as on its way: it is in the chain by time.
    pub(super) const fn is_flying(&self) -> bool {
        !self.has(SACKED | PARDONED) && !self.is_due()
    }

    /// When it was sent, and what comes after what else that was sent then.
    pub(super) const fn key(&self) -> (Nanos, Seq) {
        (self.at, self.end)
    }
}

impl fmt::Debug for Sent {
    // What it is linked to is no fact about the segment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, at, marks, .. } = self;
        write!(f, "Sent {{ {start:?} {end:?} {at:?} {:#04x} }}", marks & !LINKED)
    }
}
