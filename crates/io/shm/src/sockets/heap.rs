//! The rings of one application: lent by the daemon, which alone knows which are free.
//!
//! A size class has its own part of the heap, as long as all classes together may be: addresses
//! cost nothing, and pages come with their first touch. So nothing is ever merged or split, and
//! lending takes no lock. Pages stay when a ring is given back; they count as resident until
//! [`Heap::trim`] discards them.

use std::sync::Arc;

use super::free_indexes::FreeIndexes;
use super::layout::{CLASSES, SocketMemory};
use super::quota::Quota;
use super::resident::Resident;
use super::ring::{RingDesc, RingMemory};

/// Which rings are lent.
#[derive(Debug)]
pub struct Heap {
    memory: SocketMemory,
    /// By size class: which of its rings.
    classes: [FreeIndexes; CLASSES.len()],
    /// By size class: which of its rings are in memory.
    resident: [Resident; CLASSES.len()],
    /// How many bytes may be lent, here and elsewhere.
    quota: Arc<Quota>,
}

impl Heap {
    /// All of it free.
    pub(super) fn new(memory: SocketMemory, quota: Arc<Quota>) -> Self {
        let sizes = *memory.sizes();
        let count = |log2: u8| (sizes.class_bytes() >> log2) as u32;
        let classes = CLASSES.map(|log2| FreeIndexes::new(count(log2)));
        let resident = CLASSES.map(|log2| Resident::new(count(log2)));
        Self { memory, classes, resident, quota }
    }

    /// Bytes that are lent.
    pub fn bytes(&self) -> u64 {
        let classes = self.classes.iter().zip(CLASSES);
        classes.map(|(places, log2)| u64::from(places.taken()) << log2).sum()
    }

    /// Bytes of rings that are in memory, lent or not.
    pub fn resident_bytes(&self) -> u64 {
        let classes = self.resident.iter().zip(CLASSES);
        classes.map(|(resident, log2)| u64::from(resident.count()) << log2).sum()
    }

    /// Whether a ring of that length would be within the limits now.
    pub fn has_room(&self, log2: u8) -> bool {
        self.quota.has_room(log2) && self.is_within_part(log2)
    }

    /// One region has at most half of what all may have in memory.
    fn is_within_part(&self, log2: u8) -> bool {
        self.resident_bytes().saturating_add(1 << log2) <= self.quota.budget().part(1, 2)
    }

    /// Lends a ring of at least `1 << log2` bytes; nothing when there is none that long, or a
    /// limit is reached.
    pub fn lend(&self, log2: u8) -> Option<RingMemory> {
        let class = CLASSES.iter().position(|&class| class >= log2)?;
        let bytes = 1 << CLASSES[class];
        if !self.quota.take_bytes(bytes) {
            return None;
        }
        let Some(place) = self.classes[class].take() else {
            self.quota.give_back_bytes(bytes);
            return None;
        };
        if !self.make_resident(class, place) {
            self.classes[class].give_back(place);
            self.quota.give_back_bytes(bytes);
            return None;
        }
        let desc = self.desc(class, place);
        let region = Arc::clone(self.memory.region());
        // SAFETY: the class's part has room for all of its places, so the ring lies inside the
        // heap; the place was free, so nobody else has it.
        Some(unsafe { RingMemory::new(self.memory.heap_start(desc), desc, region) })
    }

    fn desc(&self, class: usize, place: u32) -> RingDesc {
        let log2 = CLASSES[class];
        let class_at = class as u64 * self.memory.sizes().class_bytes();
        RingDesc::new(class_at + (u64::from(place) << log2), log2)
    }

    /// Counts the memory of a place whose holder is the caller.
    fn make_resident(&self, class: usize, place: u32) -> bool {
        let log2 = CLASSES[class];
        if self.resident[class].has(place) {
            return true;
        }
        if !self.is_within_part(log2) {
            self.quota.budget().count_refused();
            return false;
        }
        let fits = self.quota.take_resident(log2);
        if fits {
            self.resident[class].add(place);
        }
        fits
    }

    /// Takes a ring back.
    pub fn take_back(&self, ring: RingMemory) {
        let desc = ring.desc();
        let Some(log2) = desc.log2() else { return };
        let Some(class) = CLASSES.iter().position(|&class| class == log2) else { return };
        let inside = desc.offset() - class as u64 * self.memory.sizes().class_bytes();
        if self.classes[class].give_back((inside >> log2) as u32) {
            self.quota.give_back_bytes(desc.bytes());
        }
    }

    /// Discards the pages of rings that nobody has, of `rings_max` at most: the number of bytes.
    /// Rings shorter than a page share theirs with others and stay. Several threads may lend
    /// meanwhile; it takes a system call for each ring, so none of them does this.
    pub fn trim(&self, rings_max: usize) -> u64 {
        let (mut discarded, mut rings_left) = (0, rings_max);
        for (class, log2) in CLASSES.into_iter().enumerate() {
            if 1 << log2 < rustix::param::page_size() {
                continue;
            }
            for place in self.resident[class].places() {
                if rings_left == 0 {
                    return discarded;
                }
                // While it is taken nobody lends it.
                if !self.classes[class].take_at(place) {
                    continue;
                }
                rings_left -= 1;
                if self.memory.discard(self.desc(class, place)) {
                    self.resident[class].remove(place);
                    self.quota.give_back_resident(1 << log2);
                    discarded += 1 << log2;
                }
                self.classes[class].give_back(place);
            }
        }
        discarded
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.quota.give_back_bytes(self.bytes());
        self.quota.give_back_resident(self.resident_bytes());
    }
}
