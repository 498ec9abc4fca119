//! The rings of one application: lent by the daemon, which alone knows which are free.
//!
//! A size class has its own part of the heap, as long as all classes together may be: addresses
//! cost nothing, and pages come with their first touch. So nothing is ever merged or split, and
//! lending takes no lock.

use std::sync::Arc;

use super::free_indexes::FreeIndexes;
use super::layout::{CLASSES, SocketMemory};
use super::quota::Quota;
use super::ring::{RingDesc, RingMemory};

/// Which rings are lent.
#[derive(Debug)]
pub struct Heap {
    memory: SocketMemory,
    /// By size class: which of its rings.
    classes: [FreeIndexes; CLASSES.len()],
    /// How many bytes may be lent, here and elsewhere.
    quota: Arc<Quota>,
}

impl Heap {
    /// All of it free.
    pub(super) fn new(memory: SocketMemory, quota: Arc<Quota>) -> Self {
        let sizes = *memory.sizes();
        let classes = CLASSES.map(|log2| FreeIndexes::new((sizes.class_bytes() >> log2) as u32));
        Self { memory, classes, quota }
    }

    /// Bytes that are lent.
    pub fn bytes(&self) -> u64 {
        let classes = self.classes.iter().zip(CLASSES);
        classes.map(|(places, log2)| u64::from(places.taken()) << log2).sum()
    }

    /// Whether a ring of that length would be within the limit now.
    pub fn has_room(&self, log2: u8) -> bool {
        self.quota.has_room(1 << log2)
    }

    /// Lends a ring of at least `1 << log2` bytes; nothing when there is none that long, or the
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
        let class_at = class as u64 * self.memory.sizes().class_bytes();
        let desc = RingDesc::new(class_at + u64::from(place) * bytes, CLASSES[class]);
        let region = Arc::clone(self.memory.region());
        // SAFETY: the class's part has room for all of its places, so the ring lies inside the
        // heap; the place was free, so nobody else has it.
        Some(unsafe { RingMemory::new(self.memory.heap_start(desc), desc, region) })
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
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.quota.give_back_bytes(self.bytes());
    }
}
