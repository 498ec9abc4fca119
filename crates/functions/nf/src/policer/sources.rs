//! A bucket for each source that is busy, in a table that does not grow.
//!
//! A source may be in one of eight neighbouring places. When these are taken, one whose bucket is
//! full again gives its place up: forgetting it changes nothing, because a new bucket is full too.
//! So whoever sends with ever new sources fills no table for longer than one of its packets takes
//! at the rate.
//!
//! Threads share the table. Two of them that meet a new source in the same moment may give it two
//! places, of which the second is forgotten: it has its burst twice then, once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Nanos;

use crate::bucket::{Bucket, Rate};

/// Sources that have a place at a time.
const PLACES: usize = 1 << 16;
/// Places where one of them may be.
const WAYS: usize = 8;

/// Who sends: a prefix of its address, and the class that limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) address: u128,
    /// Below 256, as many as there may be.
    pub(super) class: u16,
}

/// A place: who has it, and its bucket.
#[derive(Debug, Default)]
struct Place {
    /// [`key`] of its source; zero: it is free.
    key: AtomicU64,
    bucket: Bucket,
}

/// The table.
#[derive(Debug)]
pub(super) struct Sources {
    sets: Vec<[Place; WAYS]>,
    seed: u64,
}

impl Sources {
    pub(super) fn new(seed: u64) -> Self {
        Self { sets: (0..PLACES / WAYS).map(|_| Default::default()).collect(), seed }
    }

    /// No places at all, for whoever limits no sources.
    pub(super) fn none() -> Self {
        Self { sets: Vec::new(), seed: 0 }
    }

    /// The bucket of `source`; nothing when all its places are taken by others that are busy.
    /// `rate_of` knows the rates of all classes.
    #[inline]
    pub(super) fn bucket<'a>(
        &self,
        source: Source,
        rate_of: impl Fn(usize) -> Option<&'a Rate>,
        now: Nanos,
    ) -> Option<&Bucket> {
        let hash = hash(source, self.seed);
        let key = key(hash, source.class);
        let count = self.sets.len().max(1);
        // The upper half chooses the set: the lowest bits are not in the key.
        let set = self.sets.get((hash >> 32) as usize % count)?;
        if let Some(place) = set.iter().find(|place| place.key.load(Relaxed) == key) {
            return Some(&place.bucket);
        }
        let rate = rate_of(source.class.into())?;
        let taken = set.iter().find(|place| {
            let old = place.key.load(Relaxed);
            let is_idle = |rate| place.bucket.is_full(rate, now);
            (old == 0 || rate_of(class_of(old)).is_none_or(is_idle))
                && place.key.compare_exchange(old, key, Relaxed, Relaxed).is_ok()
        })?;
        taken.bucket.fill(rate, now);
        Some(&taken.bucket)
    }
}

/// A source in one word: 55 bits of its hash, one that is always set, and its class. In a set of
/// eight two sources are taken for one by accident once in 2^39 times, and nobody else knows the
/// seed.
const fn key(hash: u64, class: u16) -> u64 {
    hash & !0x1ff | 0x100 | (class as u64 & 0xff)
}

const fn class_of(key: u64) -> usize {
    (key & 0xff) as usize
}

/// Both halves of the address and the class, stirred with the seed by multiplications whose upper
/// halves come back in.
#[inline]
fn hash(source: Source, seed: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let stir = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        (product as u64) ^ (product >> 64) as u64
    };
    let (high, low) = ((source.address >> 64) as u64, source.address as u64);
    let stirred = stir(high ^ seed, ODD ^ u64::from(source.class));
    stir(low ^ stirred, ODD ^ seed.rotate_left(32))
}
