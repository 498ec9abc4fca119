//! A bounded table of things that are found by key: no allocation after the start, chains of
//! places, and a seed so that nobody chooses keys that collide.

use crate::track::hash_of;

/// No place.
const NONE: u32 = u32::MAX;

/// Something that is found by a key of two words.
pub(crate) trait Keyed {
    fn key(&self) -> [u64; 2];
}

/// The table. A place is a number below its limit; one that is given again has another generation.
#[derive(Debug)]
pub(crate) struct Places<T> {
    entries: Vec<Entry<T>>,
    limit: usize,
    /// First places by hash, plus one.
    buckets: Box<[u32]>,
    /// The first free place.
    free: u32,
    len: usize,
    seed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    value: Option<T>,
    next: u32,
    generation: u32,
}

impl<T: Keyed> Places<T> {
    pub(crate) fn new(limit: usize, seed: u64) -> Self {
        let limit = limit.max(1);
        Self {
            entries: Vec::with_capacity(limit),
            limit,
            // Zeros, which the kernel maps when they are first written.
            buckets: vec![0; limit.next_power_of_two()].into(),
            free: NONE,
            len: 0,
            seed,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.entries.get(place as usize)?.value.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.entries.get_mut(place as usize)?.value.as_mut()
    }

    /// The place and its generation in one number.
    #[inline]
    pub(crate) fn mark(&self, place: u32) -> u64 {
        let generation = self.entries.get(place as usize).map_or(0, |entry| entry.generation);
        u64::from(generation) << 32 | u64::from(place)
    }

    /// The place of a mark, if what it was of is still there.
    #[inline]
    pub(crate) fn marked(&self, mark: u64) -> Option<u32> {
        let place = mark as u32;
        let entry = self.entries.get(place as usize)?;
        (entry.value.is_some() && u64::from(entry.generation) == mark >> 32).then_some(place)
    }

    #[inline]
    pub(crate) fn find(&self, key: [u64; 2]) -> Option<u32> {
        let mut next = self.buckets[self.bucket(key)];
        while let Some(place) = next.checked_sub(1) {
            let entry = self.entries.get(place as usize)?;
            if entry.value.as_ref().is_some_and(|value| value.key() == key) {
                return Some(place);
            }
            next = entry.next.wrapping_add(1);
        }
        None
    }

    /// Puts one in, of which there is none with its key; nothing when there is no room.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        let bucket = self.bucket(value.key());
        let place = match self.free {
            NONE if self.entries.len() == self.limit => return None,
            NONE => {
                self.entries.push(Entry { value: None, next: NONE, generation: 0 });
                self.entries.len() as u32 - 1
            }
            free => {
                self.free = self.entries[free as usize].next;
                free
            }
        };
        let entry = &mut self.entries[place as usize];
        entry.value = Some(value);
        entry.next = self.buckets[bucket].wrapping_sub(1);
        entry.generation = entry.generation.wrapping_add(1);
        self.buckets[bucket] = place + 1;
        self.len += 1;
        Some(place)
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let bucket = self.bucket(self.get(place)?.key());
        let after = self.entries[place as usize].next;
        if self.buckets[bucket] == place + 1 {
            self.buckets[bucket] = after.wrapping_add(1);
        } else {
            let mut at = self.buckets[bucket].checked_sub(1)?;
            while self.entries[at as usize].next != place {
                at = self.entries[at as usize].next;
                if at == NONE {
                    return None;
                }
            }
            self.entries[at as usize].next = after;
        }
        let free = self.free;
        let entry = &mut self.entries[place as usize];
        entry.next = free;
        self.free = place;
        self.len -= 1;
        entry.value.take()
    }

    #[inline]
    fn bucket(&self, [a, b]: [u64; 2]) -> usize {
        hash_of(self.seed, &[a, b]) as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Clone, Copy)]
    struct Thing(u64, u64);

    impl Keyed for Thing {
        fn key(&self) -> [u64; 2] {
            [self.0, 7]
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds_and_old_marks_lead_nowhere(
            steps in prop::collection::vec((0..12_u64, any::<bool>()), 1..300),
        ) {
            let mut places = Places::new(8, 3);
            let mut map = HashMap::new();
            let mut old = Vec::new();
            for (number, (key, puts)) in steps.into_iter().enumerate() {
                let thing = Thing(key, number as u64);
                match places.find(thing.key()) {
                    Some(place) if !puts => {
                        old.push(places.mark(place));
                        prop_assert_eq!(places.remove(place), map.remove(&key));
                    }
                    None if puts => match places.insert(thing) {
                        Some(_) => prop_assert_eq!(map.insert(key, thing), None),
                        None => prop_assert_eq!(map.len(), 8),
                    },
                    _ => {}
                }
                prop_assert_eq!(places.len(), map.len());
                for key in 0..12 {
                    let found = places.find([key, 7]).and_then(|place| places.get(place));
                    prop_assert_eq!(found, map.get(&key));
                }
            }
            for mark in old {
                prop_assert_eq!(places.marked(mark), None);
            }
        }
    }
}
