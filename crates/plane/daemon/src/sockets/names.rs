//! Which socket has which cookie: a cookie is the name of an open file for as long as the machine
//! runs.
//!
//! An application says which of its slots a cookie belongs to, and may say what it likes: so
//! several can claim one cookie, and each is told when that file is gone. Nobody can take another's
//! name away.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{RegionId, SlotId};

/// A region's number and a slot in it.
pub(super) type SlotKey = (RegionId, SlotId);

/// Ends that were heard of before their names, at most.
const ENDED_MAX: usize = 16_384;

/// Cookies and places.
#[derive(Debug, Default)]
pub(super) struct Names {
    places: BTreeMap<u64, Vec<SlotKey>>,
    /// Files that are gone and had no slot: what names them comes too late.
    ended: BTreeSet<u64>,
    in_order: VecDeque<u64>,
}

impl Names {
    /// The socket at `place` has this cookie. False: that file is gone already.
    pub(super) fn add(&mut self, cookie: u64, place: SlotKey) -> bool {
        let places = self.places.entry(cookie).or_default();
        if !places.contains(&place) {
            places.push(place);
        }
        !self.ended.contains(&cookie)
    }

    /// It has it no more.
    pub(super) fn remove(&mut self, cookie: u64, place: SlotKey) {
        let Some(places) = self.places.get_mut(&cookie) else { return };
        places.retain(|other| *other != place);
        if places.is_empty() {
            self.places.remove(&cookie);
        }
    }

    /// Who has this cookie.
    pub(super) fn of(&self, cookie: u64) -> &[SlotKey] {
        self.places.get(&cookie).map_or(&[], Vec::as_slice)
    }

    /// All cookies that somebody has.
    pub(super) fn cookies(&self) -> impl Iterator<Item = u64> {
        self.places.keys().copied()
    }

    /// The file is gone: who had it.
    pub(super) fn end(&mut self, cookie: u64) -> Vec<SlotKey> {
        if self.ended.insert(cookie) {
            self.in_order.push_back(cookie);
        }
        if self.in_order.len() > ENDED_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        self.places.get(&cookie).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_anothers_name_away() {
        let mut names = Names::default();
        assert!(
            names.add(7, (RegionId(1), SlotId(0)))
                && names.add(7, (RegionId(2), SlotId(5)))
                && names.add(7, (RegionId(1), SlotId(0)))
        );
        assert_eq!(names.of(7), [(RegionId(1), SlotId(0)), (RegionId(2), SlotId(5))]);
        names.remove(7, (RegionId(2), SlotId(5)));
        assert_eq!(names.end(7), [(RegionId(1), SlotId(0))]);
        names.remove(7, (RegionId(1), SlotId(0)));
        assert!(names.of(7).is_empty() && names.cookies().next().is_none());
    }

    #[test]
    fn a_name_that_comes_after_its_end_is_known_to_be_late_for_a_while() {
        let mut names = Names::default();
        assert!(names.end(7).is_empty());
        assert!(!names.add(7, (RegionId(1), SlotId(0))), "too late");
        for cookie in 100..100 + ENDED_MAX as u64 {
            names.end(cookie);
        }
        assert!(names.add(7, (RegionId(1), SlotId(1))), "forgotten: memory is bounded");
        assert_eq!(names.ended.len(), ENDED_MAX);
    }
}
