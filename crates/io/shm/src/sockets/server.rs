//! The daemon's side of a region of sockets: what it lends to whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::{Generation, SlotId};

use super::free_indexes::FreeIndexes;
use super::heap::Heap;
use super::layout::{SocketMemory, SocketSizes};
use super::quota::Quota;
use super::slot_state::Kind;
use crate::region::RegionError;

/// A region that the daemon has made: shared by its threads.
#[derive(Debug)]
pub struct SocketServer {
    memory: SocketMemory,
    heap: Heap,
    /// How many sockets may be lent, here and elsewhere.
    quota: Arc<Quota>,
    slots: FreeIndexes,
    /// Of each slot; the words that the application sees are copies, and its to overwrite.
    generations: Box<[AtomicU32]>,
    pollers: [FreeIndexes; 2],
}

impl SocketServer {
    /// A region of `sizes`, which must be possible.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn create(name: &str, sizes: SocketSizes) -> Result<Self, RegionError> {
        Self::within(name, sizes, Arc::new(Quota::new(sizes.slots, sizes.ring_bytes)))
    }

    /// The same, of which no more is lent than `quota` has left.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn within(name: &str, sizes: SocketSizes, quota: Arc<Quota>) -> Result<Self, RegionError> {
        let memory = SocketMemory::create(name, sizes)?;
        Ok(Self {
            heap: Heap::new(memory.clone(), Arc::clone(&quota)),
            quota,
            slots: FreeIndexes::new(sizes.slots),
            generations: (0..sizes.slots).map(|_| AtomicU32::new(0)).collect(),
            pollers: [FreeIndexes::new(sizes.pollers), FreeIndexes::new(sizes.pollers)],
            memory,
        })
    }

    /// What both sides see.
    pub fn memory(&self) -> &SocketMemory {
        &self.memory
    }

    /// The rings.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Which pollers of a side are lent.
    pub fn pollers(&self, side: super::Side) -> &FreeIndexes {
        &self.pollers[side as usize]
    }

    /// Sockets in use.
    pub fn slots_taken(&self) -> u32 {
        self.slots.taken()
    }

    /// Whether a slot is in use.
    pub fn is_taken(&self, slot: SlotId) -> bool {
        self.slots.is_taken(slot.0)
    }

    /// Which of the sockets that ever had this slot has it now, or had it last. What the
    /// application has written into the word of that name counts for nothing.
    pub fn generation(&self, slot: SlotId) -> Generation {
        let generation = self.generations.get(slot.index());
        Generation(generation.map_or(0, |generation| generation.load(Ordering::Acquire)))
    }

    /// Lends a slot for a socket of that kind, its words as those of a new one; nothing when all
    /// are in use. The state is still [`Kind::Free`]: whoever sets up the socket says last what it
    /// is.
    pub fn lend_slot(&self) -> Option<SlotId> {
        if !self.quota.take_slots(1) {
            return None;
        }
        let Some(slot) = self.slots.take().map(SlotId) else {
            self.quota.give_back_slots(1);
            return None;
        };
        self.clear(slot);
        Some(slot)
    }

    /// Lends a slot and the one after it, for the two ends of a local connection.
    pub fn lend_pair(&self) -> Option<SlotId> {
        if !self.quota.take_slots(2) {
            return None;
        }
        // Only pairs are lent here, so places come as pairs.
        let first = self.slots.take().map(SlotId);
        let second = self.slots.take().map(SlotId);
        if let (Some(first), Some(second)) = (first, second)
            && first.end() == 0
            && second == first.next()
        {
            self.clear(first);
            self.clear(second);
            return Some(first);
        }
        self.quota.give_back_slots(2);
        for slot in [first, second].into_iter().flatten() {
            self.slots.give_back(slot.0);
        }
        None
    }

    fn clear(&self, slot: SlotId) {
        let (words, own) = (self.memory.slot(slot), self.generations.get(slot.index()));
        let (Some(words), Some(own)) = (words, own) else { return };
        let generation = Generation(own.fetch_add(1, Ordering::AcqRel)).next();
        words.state.store(Kind::Free as u32, Ordering::Release);
        words.generation.store(generation.0, Ordering::Release);
        words.rewind();
    }

    /// Takes a slot back: its socket is no more.
    pub fn take_back_slot(&self, slot: SlotId) {
        if let Some(words) = self.memory.slot(slot) {
            words.state.store(Kind::Free as u32, Ordering::Release);
        }
        if self.slots.give_back(slot.0) {
            self.quota.give_back_slots(1);
        }
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.quota.give_back_slots(self.slots.taken());
    }
}
