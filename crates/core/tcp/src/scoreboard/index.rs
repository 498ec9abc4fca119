//! Finds a record by sequence number in O(log n).
//!
//! A flow's records are a queue: new ones come behind, acknowledged ones leave at the front. Each
//! that was sent new knows the one before it and one farther before it, and how far: the pointers
//! of a stack with random access (Myers, 1983), which cost a constant at the append and nothing
//! later. What they say of records that have left is never asked: the distances tell.
//!
//! What was cut off a record has no pointers, and lies behind the record it was cut from.

use super::{NONE, Sent};
use crate::Seq;
use crate::pool::List;
use crate::shared::SentPool;

impl Sent {
    /// Records between it and the one that `jump` names, that one included.
    const fn span(&self) -> u32 {
        (1 << self.level) - 1
    }

    /// Whether it has pointers.
    const fn is_indexed(&self) -> bool {
        self.level > 0
    }
}

/// How many records of a flow's list have pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Index {
    count: u32,
}

impl Index {
    pub(super) const EMPTY: Self = Self { count: 0 };
    /// That of a flow with one record.
    pub(super) const ONE: Self = Self { count: 1 };

    /// Gives `record`, which will be the last of `sent`, its pointers.
    #[inline]
    pub(super) fn append(&mut self, pool: &SentPool, sent: &List, record: &mut Sent) {
        (record.prev, record.jump, record.level) = (NONE, NONE, 1);
        if let Some(parent) = self.last(pool, sent) {
            (record.prev, record.jump) = (parent, parent);
            let before = pool.get(parent);
            if before.span() < self.count {
                let jump = pool.get(before.jump);
                if jump.level == before.level {
                    (record.jump, record.level) = (jump.jump, before.level + 1);
                }
            }
        }
        self.count += 1;
    }

    /// The first of the flow's records has left.
    #[inline]
    pub(super) fn note_left(&mut self, record: &Sent) {
        self.count -= u32::from(record.is_indexed());
    }

    /// Takes the pointers from `rest`, which was cut off the record at `index`.
    pub(super) fn note_cut(pool: &SentPool, index: u32, rest: &mut Sent) {
        let first = pool.get(index);
        let prev = if first.is_indexed() { index } else { first.prev };
        (rest.prev, rest.jump, rest.level) = (prev, NONE, 0);
    }

    /// The last record with pointers.
    #[inline]
    fn last(&self, pool: &SentPool, sent: &List) -> Option<u32> {
        let last = sent.last().filter(|_| self.count > 0)?;
        let record = pool.get(last);
        Some(if record.is_indexed() { last } else { record.prev })
    }

    /// The first record that does not begin before `number`.
    pub(super) fn find_from(&self, pool: &SentPool, sent: &List, number: Seq) -> Option<u32> {
        let mut at = self.find(pool, sent, number);
        // The record that has the number, and what was cut off it.
        while let Some(index) = at
            && pool.get(index).start.is_before(number)
        {
            at = pool.next(index);
        }
        at
    }

    /// A record that does not begin behind `number`, with none that has pointers between the two;
    /// the flow's first if all begin behind it.
    pub(super) fn find(&self, pool: &SentPool, sent: &List, number: Seq) -> Option<u32> {
        let Some(mut at) = self.last(pool, sent) else { return sent.first() };
        let mut before = self.count - 1;
        loop {
            let record = pool.get(at);
            if !record.start.is_after(number) {
                return Some(at);
            }
            if before == 0 {
                return sent.first();
            }
            let span = record.span();
            if span <= before && pool.get(record.jump).start.is_after(number) {
                at = record.jump;
                before -= span;
            } else {
                at = record.prev;
                before -= 1;
            }
        }
    }
}
