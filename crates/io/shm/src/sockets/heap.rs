//! The rings of one application: lent by the daemon, which alone knows which are free.
//!
//! A size class has its own part of the heap, as long as all classes together may be: addresses
//! cost nothing, and pages come with their first touch. So nothing is ever merged or split, and
//! lending takes no lock. Pages stay when a ring is given back; they count as resident until
//! [`Heap::trim`] or [`Heap::trim_unused`] discards them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::free_indexes::FreeIndexes;
use super::layout::{CLASSES, SocketMemory};
use super::quota::Quota;
use super::resident::Resident;
use super::ring::{RingDesc, RingMemory};
use super::spare::Spare;

/// Which rings are lent.
#[derive(Debug)]
pub struct Heap {
    memory: SocketMemory,
    /// By size class: which of its rings.
    classes: [FreeIndexes; CLASSES.len()],
    /// By size class: which of its rings are in memory.
    resident: [Resident; CLASSES.len()],
    /// Bytes of those, and of those that are about to be.
    resident_bytes: AtomicU64,
    /// How much of that is kept for rings that will be lent soon.
    spare: Spare,
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
        let resident_bytes = AtomicU64::new(0);
        Self { memory, classes, resident, resident_bytes, spare: Spare::new(), quota }
    }

    /// Bytes that are lent.
    pub fn bytes(&self) -> u64 {
        let classes = self.classes.iter().zip(CLASSES);
        classes.map(|(places, log2)| u64::from(places.taken()) << log2).sum()
    }

    /// Bytes of rings that are in memory, lent or not.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes.load(Ordering::Relaxed)
    }

    /// The most that may be: one region has at most half of what all may have in memory.
    pub fn resident_max(&self) -> u64 {
        self.quota.budget().part(1, 2)
    }

    /// What its user may have in memory, in all regions.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Whether a ring of that length would be within the limits now.
    pub fn has_room(&self, log2: u8) -> bool {
        self.quota.has_room(log2) && self.is_within_part(log2)
    }

    fn is_within_part(&self, log2: u8) -> bool {
        self.resident_bytes().saturating_add(1 << log2) <= self.resident_max()
    }

    /// Takes memory out of the region's part: in one step, so that threads which lend at once
    /// cannot go beyond it together.
    fn take_resident(&self, log2: u8) -> bool {
        let bytes = 1 << log2;
        let before = self.resident_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.resident_max();
        if !fits {
            self.quota.budget().count_refused();
        }
        if !fits || !self.quota.take_resident(log2) {
            self.resident_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
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
        let fits = self.take_resident(log2);
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
        if self.classes[class].give_back(self.place_of(class, desc)) {
            self.quota.give_back_bytes(desc.bytes());
        }
    }

    /// Which place of its class a ring has.
    fn place_of(&self, class: usize, desc: RingDesc) -> u32 {
        let inside = desc.offset() - class as u64 * self.memory.sizes().class_bytes();
        (inside >> CLASSES[class]) as u32
    }

    /// Discards the pages of rings that nobody has, of `rings_max` at most: the number of bytes.
    /// Rings shorter than a page share theirs with others and stay. Several threads may lend
    /// meanwhile; it takes a system call for each ring, so none of them does this.
    pub fn trim(&self, rings_max: usize) -> u64 {
        self.trim_down_to(0, rings_max)
    }

    /// The same as far as rings in memory are more than what was lent lately and some: for whoever
    /// asks every [`SPARE_LOOK_EVERY`](super::SPARE_LOOK_EVERY), however much memory there is.
    /// Otherwise what an application once needed in a bad minute would be its for good.
    pub fn trim_unused(&self, rings_max: usize) -> u64 {
        self.trim_down_to(self.spare.look(self.bytes()), rings_max)
    }

    /// The same until no more than `kept` bytes are in memory. The longest go first, and of those
    /// the ones that are lent last.
    fn trim_down_to(&self, kept: u64, rings_max: usize) -> u64 {
        let (mut discarded, mut rings_left) = (0, rings_max);
        for (class, log2) in CLASSES.into_iter().enumerate().rev() {
            if 1 << log2 < rustix::param::page_size() || self.resident_bytes() <= kept {
                break;
            }
            for place in self.resident[class].places_from_the_last() {
                if rings_left == 0 || self.resident_bytes() <= kept {
                    return discarded;
                }
                // While it is taken nobody lends it.
                if !self.classes[class].take_at(place) {
                    continue;
                }
                rings_left -= 1;
                discarded += self.discard_place(class, place);
                self.classes[class].give_back(place);
            }
        }
        discarded
    }

    /// Discards the pages of a ring that the caller has and nobody is to read any more: the number
    /// of bytes. Zero for one shorter than a page.
    pub fn discard(&self, ring: &RingMemory) -> u64 {
        let desc = ring.desc();
        let class = desc.log2().and_then(|log2| CLASSES.iter().position(|&class| class == log2));
        let Some(class) = class.filter(|_| desc.bytes() >= rustix::param::page_size() as u64)
        else {
            return 0;
        };
        let place = self.place_of(class, desc);
        if self.resident[class].has(place) { self.discard_place(class, place) } else { 0 }
    }

    /// The same of a place that the caller has.
    fn discard_place(&self, class: usize, place: u32) -> u64 {
        let bytes = 1 << CLASSES[class];
        if !self.memory.discard(self.desc(class, place)) {
            return 0;
        }
        self.resident[class].remove(place);
        self.resident_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.quota.give_back_resident(bytes);
        bytes
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.quota.give_back_bytes(self.bytes());
        self.quota.give_back_resident(self.resident_bytes());
    }
}
