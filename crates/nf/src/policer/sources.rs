//! A bucket for each source that is busy, in a table that does not grow.
//!
//! A source may be in one of eight neighbouring places. When these are taken, one whose bucket is full again
//! gives its place up: forgetting it changes nothing, because a new bucket is full too. So whoever sends with
//! ever new sources fills no table for longer than one of its packets takes at the rate.

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
    pub(super) class: u16,
}

/// A source with its bucket, and the rate that says when it is full.
#[derive(Clone, Copy, Debug)]
struct SourceEntry {
    source: Source,
    rate: Rate,
    bucket: Bucket,
}

/// The table.
#[derive(Debug)]
pub(super) struct Sources {
    sets: Vec<[Option<SourceEntry>; WAYS]>,
    seed: u64,
}

impl Sources {
    pub(super) fn new(seed: u64) -> Self {
        Self { sets: vec![[None; WAYS]; PLACES / WAYS], seed }
    }

    /// No places at all, for whoever limits no sources.
    pub(super) fn none() -> Self {
        Self { sets: Vec::new(), seed: 0 }
    }

    /// The bucket of `source`; nothing when all its places are taken by others that are busy.
    #[inline]
    pub(super) fn bucket(
        &mut self,
        source: Source,
        rate: &Rate,
        now: Nanos,
    ) -> Option<&mut Bucket> {
        let count = self.sets.len().max(1);
        let set = self.sets.get_mut(hash(source, self.seed) as usize % count)?;
        let is_it = |place: &Option<SourceEntry>| place.is_some_and(|place| place.source == source);
        let way = match set.iter().position(is_it) {
            Some(way) => way,
            None => {
                let way = set.iter().position(|place| {
                    place.is_none_or(|place| place.bucket.is_full(&place.rate, now))
                })?;
                set[way] =
                    Some(SourceEntry { source, rate: *rate, bucket: Bucket::full(rate, now) });
                way
            }
        };
        set[way].as_mut().map(|place| &mut place.bucket)
    }
}

/// Both halves of the address and the class, stirred with the seed by multiplications whose upper halves
/// come back in.
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
