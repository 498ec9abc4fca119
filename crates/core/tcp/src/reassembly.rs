//! Bytes that came out of order: where they are in the receive ring, and what to tell the peer.
//!
//! The bytes themselves lie in the ring already, at the places that their numbers give them.
//! What came first stays: a later segment that says something else about the same numbers changes
//! nothing, so nobody can rewrite what was received.

use crate::Seq;
use crate::pool::List;
use crate::shared::RangePool;

/// Numbers from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Seq,
    pub(crate) end: Seq,
}

/// The out-of-order ranges of a flow: in order, apart, all behind the next expected number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reassembly {
    ranges: List,
    /// A number of each of the ranges that changed last, newest first.
    recent: [Seq; 4],
}

/// The ranges of a SACK option.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Blocks {
    blocks: [(Seq, Seq); 4],
    count: usize,
}

impl Blocks {
    /// Adds a range behind the others, unless it is there or there are four.
    pub(crate) fn push(&mut self, block: (Seq, Seq)) {
        if !self.as_slice().contains(&block)
            && let Some(place) = self.blocks.get_mut(self.count)
        {
            *place = block;
            self.count += 1;
        }
    }

    pub(crate) fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..self.count]
    }
}

impl Reassembly {
    pub(crate) const EMPTY: Self = Self { ranges: List::EMPTY, recent: [Seq(0); 4] };

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Takes a segment's numbers in, and calls `write` for those parts that are new. False, and
    /// nothing done, when it would be one range too many.
    #[must_use]
    pub(crate) fn insert(
        &mut self,
        pool: &mut RangePool,
        new: Range,
        ranges_max: u32,
        mut write: impl FnMut(Range),
    ) -> bool {
        let Range { start, end } = new;
        // The last range that ends before the new one begins.
        let mut before = None;
        let mut at = self.ranges.first();
        while let Some(index) = at
            && pool.get(index).end.is_before(start)
        {
            before = at;
            at = pool.next(index);
        }
        let Some(first) = at.filter(|index| !pool.get(*index).start.is_after(end)) else {
            if self.ranges.len() >= ranges_max || !pool.insert_after(&mut self.ranges, before, new)
            {
                return false;
            }
            write(new);
            self.note(start);
            return true;
        };
        // What touches the new one is merged into the first of them.
        let mut merged = Range { start: start.earlier(pool.get(first).start), end };
        let mut written_to = start;
        let mut range = *pool.get(first);
        loop {
            if written_to.is_before(range.start) {
                write(Range { start: written_to, end: range.start.earlier(end) });
            }
            written_to = written_to.later(range.end);
            merged.end = merged.end.later(range.end);
            let Some(next) = pool.next(first).map(|index| *pool.get(index)) else { break };
            if next.start.is_after(end) {
                break;
            }
            pool.remove_after(&mut self.ranges, Some(first));
            range = next;
        }
        if written_to.is_before(end) {
            write(Range { start: written_to, end });
        }
        *pool.get_mut(first) = merged;
        self.note(start);
        true
    }

    fn note(&mut self, start: Seq) {
        if self.recent[0] != start {
            self.recent.rotate_right(1);
            self.recent[0] = start;
        }
    }

    /// The next expected number once everything up to `rcv_nxt` is there.
    pub(crate) fn advance(&mut self, pool: &mut RangePool, mut rcv_nxt: Seq) -> Seq {
        while let Some(index) = self.ranges.first()
            && !pool.get(index).start.is_after(rcv_nxt)
        {
            rcv_nxt = rcv_nxt.later(pool.get(index).end);
            pool.pop_front(&mut self.ranges);
        }
        rcv_nxt
    }

    /// The first number that came before its turn.
    pub(crate) fn first_start(&self, pool: &RangePool) -> Option<Seq> {
        self.ranges.first().map(|index| pool.get(index).start)
    }

    /// Adds what RFC 2018 section 4 wants to hear: the range that changed last first, then those
    /// that changed before it, then others.
    pub(crate) fn report(&self, pool: &RangePool, blocks: &mut Blocks) {
        if self.is_empty() {
            return;
        }
        for number in self.recent {
            let around = pool
                .iter(&self.ranges)
                .find(|range| !number.is_before(range.start) && number.is_before(range.end));
            if let Some(range) = around {
                blocks.push((range.start, range.end));
            }
        }
        for range in pool.iter(&self.ranges).take(4) {
            blocks.push((range.start, range.end));
        }
    }

    /// Whether all of `range` is there.
    pub(crate) fn holds(&self, pool: &RangePool, range: Range) -> bool {
        pool.iter(&self.ranges)
            .any(|held| !range.start.is_before(held.start) && !range.end.is_after(held.end))
    }

    /// Takes its ranges out, to be put into another engine's pool.
    pub(crate) fn drain(&mut self, pool: &mut RangePool, out: &mut Vec<Range>) -> u32 {
        let count = self.ranges.len();
        while let Some(range) = pool.pop_front(&mut self.ranges) {
            out.push(range);
        }
        count
    }

    /// Puts in what [`Self::drain`] took out of another pool; false when this one is too small.
    #[must_use]
    pub(crate) fn restore(
        &mut self,
        pool: &mut RangePool,
        ranges: impl Iterator<Item = Range>,
    ) -> bool {
        let mut is_whole = true;
        for range in ranges {
            is_whole &= pool.push_back(&mut self.ranges, range);
        }
        is_whole
    }

    /// Gives all its memory back.
    pub(crate) fn clear(&mut self, pool: &mut RangePool) {
        pool.clear(&mut self.ranges);
    }
}

#[cfg(test)]
mod tests;
