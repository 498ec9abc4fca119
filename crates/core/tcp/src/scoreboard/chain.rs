//! Records of a flow in another order than that of their numbers: doubly linked, so that one is
//! taken out of the middle at once, and in a circle, so that one end names both.

use super::{NONE, Sent};
use crate::shared::SentPool;

/// A chain of records. A record is in one of its flow's chains, or in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    last: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { last: NONE };

    /// That of one record, which is linked to itself.
    pub(super) const fn of(index: u32) -> Self {
        Self { last: index }
    }

    #[inline]
    pub(super) fn last(self) -> Option<u32> {
        (self.last != NONE).then_some(self.last)
    }

    #[inline]
    pub(super) fn first(self, pool: &SentPool) -> Option<u32> {
        self.last().map(|last| pool.get(last).right)
    }

    /// The record before `index`, which is in it.
    #[inline]
    pub(super) fn before(self, pool: &SentPool, index: u32) -> Option<u32> {
        let left = pool.get(index).left;
        (left != self.last).then_some(left)
    }

    /// The record behind `index`, which is in it; behind nothing: the first.
    #[inline]
    pub(super) fn after(self, pool: &SentPool, index: Option<u32>) -> Option<u32> {
        match index {
            None => self.first(pool),
            Some(index) => (index != self.last).then(|| pool.get(index).right),
        }
    }

    #[inline]
    pub(super) fn push_back(&mut self, pool: &mut SentPool, index: u32) {
        self.insert(pool, self.last(), index);
    }

    /// Puts a record behind `place`, or at the front.
    #[inline]
    pub(super) fn insert(&mut self, pool: &mut SentPool, place: Option<u32>, index: u32) {
        let (mut left, mut right) = (index, index);
        if self.last == NONE {
            self.last = index;
        } else {
            left = place.unwrap_or(self.last);
            right = std::mem::replace(&mut pool.get_mut(left).right, index);
            pool.get_mut(right).left = index;
            if place == Some(self.last) {
                self.last = index;
            }
        }
        let record = pool.get_mut(index);
        (record.left, record.right) = (left, right);
    }

    /// Takes out record `index`, which is in it and is `record`.
    #[inline]
    pub(super) fn remove(&mut self, pool: &mut SentPool, index: u32, record: &Sent) {
        let Sent { left, right, .. } = *record;
        if right == index {
            self.last = NONE;
            return;
        }
        pool.get_mut(left).right = right;
        pool.get_mut(right).left = left;
        if self.last == index {
            self.last = left;
        }
    }

    /// Puts all records of `other` before its own.
    pub(super) fn prepend(&mut self, pool: &mut SentPool, other: Self) {
        let Some(first) = other.first(pool) else { return };
        match self.first(pool) {
            None => *self = other,
            Some(own) => {
                pool.get_mut(other.last).right = own;
                pool.get_mut(own).left = other.last;
                pool.get_mut(self.last).right = first;
                pool.get_mut(first).left = self.last;
            }
        }
    }
}
