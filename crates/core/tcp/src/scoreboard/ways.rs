//! Where RACK and retransmission find what they look for, without a walk over all records.

use base::Nanos;

use super::NONE;
use super::chain::Chain;
use super::index::Index;
use super::record::{LINKED, Sent};
use crate::Seq;
use crate::pool::List;
use crate::shared::SentPool;

/// Records between which the place of a lost one is looked for: if it is farther away it gets the
/// last of them, for in which order lost segments are sent again is only a matter of taste.
const DUE_STEPS_MAX: u32 = 64;

/// Ways through a flow's records beside the order of their numbers. They lie in the first of them,
/// so that a flow with nothing on its way has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ways {
    /// What is on its way, by time of sending.
    pub(super) flying: Chain,
    /// What is to be sent again, by number.
    pub(super) due: Chain,
    /// The last of `flying` that was sent before what was sent last of those delivered, or
    /// [`NONE`]: up to it RACK may find losses.
    pub(super) overtaken: u32,
    pub(super) index: Index,
}

impl Ways {
    pub(super) const EMPTY: Self =
        Self { flying: Chain::EMPTY, due: Chain::EMPTY, overtaken: NONE, index: Index::EMPTY };

    #[inline]
    pub(super) fn of(pool: &mut SentPool, sent: &List) -> Self {
        let Some(index) = sent.first() else { return Self::EMPTY };
        let first = pool.get_mut(index);
        if !first.has(LINKED) {
            first.marks |= LINKED;
            (first.prev, first.jump, first.level) = (NONE, NONE, 1);
            (first.left, first.right) = (index, index);
            first.ways = Self { flying: Chain::of(index), index: Index::ONE, ..Self::EMPTY };
        }
        first.ways
    }

    #[inline]
    pub(super) fn keep(self, pool: &mut SentPool, sent: &List) {
        if let Some(first) = sent.first() {
            pool.get_mut(first).ways = self;
        }
    }

    /// Takes a record out of the chain it is in.
    #[inline]
    pub(super) fn unlink(&mut self, pool: &mut SentPool, index: u32, segment: &Sent) {
        if segment.is_flying() {
            if self.overtaken == index {
                self.overtaken = self.flying.before(pool, index).unwrap_or(NONE);
            }
            self.flying.remove(pool, index, segment);
        } else if segment.is_due() {
            self.due.remove(pool, index, segment);
        }
    }

    pub(super) fn overtaken(&self) -> Option<u32> {
        (self.overtaken != NONE).then_some(self.overtaken)
    }

    /// Moves the end of what `newest` has overtaken to where it belongs: over what was sent since.
    pub(super) fn overtake(&mut self, pool: &SentPool, newest: (Nanos, Seq)) {
        while let Some(next) = self.flying.after(pool, self.overtaken())
            && is_later(newest, pool.get(next).key())
        {
            self.overtaken = next;
        }
    }

    /// Behind which record that is due one belongs that begins at `start`; nothing: before all.
    /// `near` is one whose number is not far from that.
    pub(super) fn due_place(&self, pool: &SentPool, start: Seq, near: Option<u32>) -> Option<u32> {
        let is_before = |index: u32| pool.get(index).start.is_before(start);
        let last = self.due.last()?;
        if is_before(last) {
            return Some(last);
        }
        let mut place = near.filter(|near| is_before(*near));
        for _ in 0..DUE_STEPS_MAX {
            match self.due.after(pool, place) {
                Some(next) if is_before(next) => place = Some(next),
                _ => break,
            }
        }
        place
    }
}

/// Whether `one` was sent after `other`: the clock decides, then the numbers.
pub(super) fn is_later(one: (Nanos, Seq), other: (Nanos, Seq)) -> bool {
    one.0 > other.0 || (one.0 == other.0 && one.1.is_after(other.1))
}
