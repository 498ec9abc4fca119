//! The rings of one application: lent by the daemon, which alone knows which are free.
//!
//! A size class has its own part of the heap, as long as all classes together may be: addresses
//! cost nothing, and pages come with their first touch. So nothing is ever merged or split, and lending takes no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::{CLASSES, StreamMemory};
use super::places::Places;
use super::ring::{RingDesc, RingMemory};

/// Which rings are lent.
#[derive(Debug)]
pub struct Heap {
    memory: StreamMemory,
    /// By size class: which of its rings.
    classes: [Places; CLASSES.len()],
    /// Bytes lent, and how many may be.
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Heap {
    /// All of it free. No more than `bytes_max` are lent at once.
    pub(super) fn new(memory: StreamMemory, bytes_max: u64) -> Self {
        let sizes = *memory.sizes();
        let classes = CLASSES.map(|log2| Places::new((sizes.class_bytes() >> log2) as u32));
        Self { memory, classes, bytes: AtomicU64::new(0), bytes_max }
    }

    /// Bytes that are lent.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether a ring of that length would be within the limit now.
    pub fn has_room(&self, log2: u8) -> bool {
        self.bytes() + (1 << log2) <= self.bytes_max
    }

    /// Lends a ring of at least `1 << log2` bytes; nothing when there is none that long, or the limit is reached.
    pub fn lend(&self, log2: u8) -> Option<RingMemory> {
        let class = CLASSES.iter().position(|&class| class >= log2)?;
        let bytes = 1 << CLASSES[class];
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = (before + bytes <= self.bytes_max).then(|| self.classes[class].take());
        let Some(place) = place.flatten() else {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
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
            self.bytes.fetch_sub(desc.bytes(), Ordering::Relaxed);
        }
    }
}
