//! Single-producer single-consumer ring of fixed slots in memory that a hostile peer can write.
//!
//! Each end keeps its own index to itself and only ever *reads* the other end's; what it reads is
//! checked: an index that goes back, or further than there are slots, is a [`ProtocolViolation`]. A
//! slot is copied out word by word, once, so that what was checked is what is used. The memory
//! order is that of [`crate::spsc`]; unlike there, nothing in a slot owns anything.

use std::fmt;
use std::ptr::NonNull;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Words of a slot: one cache line.
pub(crate) const SLOT_WORDS: usize = 8;

/// The content of a slot.
pub(crate) type Slot = [u64; SLOT_WORDS];

/// A peer wrote something into shared memory that no honest peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolViolation {
    /// The index of a ring went back, or further than its peer allows.
    RingIndex,
    /// A message of no known kind.
    Message,
    /// A packet outside every buffer.
    Buffer,
    /// A buffer that it did not have.
    NotHeld,
}

impl ProtocolViolation {
    /// The name under which it is counted and logged.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingIndex => "ring_index",
            Self::Message => "message",
            Self::Buffer => "buffer",
            Self::NotHeld => "buffer_not_held",
        }
    }

    /// What it did, for its operator.
    pub const fn help(self) -> &'static str {
        match self {
            Self::RingIndex => "it moved a ring's index back or past the end",
            Self::Message => "it sent a message of no known kind",
            Self::Buffer => "it named a packet that lies in none of its buffers",
            Self::NotHeld => "it gave back a buffer that it did not have",
        }
    }
}

impl fmt::Display for ProtocolViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.help())
    }
}

impl std::error::Error for ProtocolViolation {}

/// Where a ring lies: two index words and the slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingMemory {
    pub(crate) head: NonNull<AtomicU32>,
    pub(crate) tail: NonNull<AtomicU32>,
    pub(crate) slots: NonNull<[AtomicU64; SLOT_WORDS]>,
    /// A power of two.
    pub(crate) capacity: u32,
}

impl RingMemory {
    #[inline]
    fn head(&self) -> &AtomicU32 {
        // SAFETY: whoever made the ends (their `new`) keeps the memory mapped while they live.
        unsafe { self.head.as_ref() }
    }

    #[inline]
    fn tail(&self) -> &AtomicU32 {
        // SAFETY: as for `head`.
        unsafe { self.tail.as_ref() }
    }

    #[inline]
    fn slot(&self, index: u32) -> &[AtomicU64; SLOT_WORDS] {
        let position = (index & (self.capacity - 1)) as usize;
        // SAFETY: `position < capacity`, and there are that many slots, mapped as for `head`.
        unsafe { self.slots.add(position).as_ref() }
    }
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct SlotProducer {
    memory: RingMemory,
    tail: u32,
    published: u32,
    /// The consumer's head when last read and found possible.
    head_seen: u32,
}

// SAFETY: the memory is reached through atomics only, from any thread.
unsafe impl Send for SlotProducer {}

impl SlotProducer {
    /// The writing end of an empty ring.
    ///
    /// # Safety
    /// `memory` stays mapped while this lives, its words are aligned and zero.
    pub(crate) unsafe fn new(memory: RingMemory) -> Self {
        Self { memory, tail: 0, published: 0, head_seen: 0 }
    }

    /// Writes a message that the peer will see after [`Self::publish`]; false: the ring is full.
    #[inline]
    pub(crate) fn stage(&mut self, slot: &Slot) -> Result<bool, ProtocolViolation> {
        if self.tail.wrapping_sub(self.head_seen) == self.memory.capacity {
            self.look()?;
            if self.tail.wrapping_sub(self.head_seen) == self.memory.capacity {
                return Ok(false);
            }
        }
        for (word, value) in self.memory.slot(self.tail).iter().zip(slot) {
            // Relaxed: `publish` orders them before the index.
            word.store(*value, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        Ok(true)
    }

    /// Shows all staged messages; true when there were any.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        if self.tail == self.published {
            return false;
        }
        self.published = self.tail;
        // Release pairs with the consumer's Acquire of `tail`.
        self.memory.tail().store(self.tail, Ordering::Release);
        true
    }

    /// Messages staged or published and not yet taken.
    #[inline]
    pub(crate) fn len(&mut self) -> Result<u32, ProtocolViolation> {
        self.look()?;
        Ok(self.tail.wrapping_sub(self.head_seen))
    }

    /// As far as was seen when somebody looked last: never too few.
    #[inline]
    pub(crate) fn len_seen(&self) -> u32 {
        self.tail.wrapping_sub(self.head_seen)
    }

    /// Messages ever published, modulo 2^32.
    pub(crate) fn produced(&self) -> u32 {
        self.published
    }

    /// Published messages that the peer has not taken, by what it says now: what cannot be counts
    /// as none taken.
    #[inline]
    pub(crate) fn len_now(&self) -> u32 {
        let head = self.memory.head().load(Ordering::Relaxed);
        let waiting = self.published.wrapping_sub(head);
        waiting.min(self.published.wrapping_sub(self.head_seen))
    }

    /// Messages staged and not yet published.
    pub(crate) fn staged(&self) -> u32 {
        self.tail.wrapping_sub(self.published)
    }

    /// Messages that the ring holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.memory.capacity
    }

    /// Reads the peer's index: it only goes forward, and never past what was published.
    #[inline]
    fn look(&mut self) -> Result<(), ProtocolViolation> {
        // Acquire pairs with the consumer's Release: its reads of the slots are over.
        let head = self.memory.head().load(Ordering::Acquire);
        let waiting = self.published.wrapping_sub(head);
        if waiting > self.published.wrapping_sub(self.head_seen) {
            return Err(ProtocolViolation::RingIndex);
        }
        self.head_seen = head;
        Ok(())
    }
}

/// The end that reads.
#[derive(Debug)]
pub(crate) struct SlotConsumer {
    memory: RingMemory,
    head: u32,
    released: u32,
    /// The producer's tail when last read and found possible.
    tail_seen: u32,
}

// SAFETY: as for the producer.
unsafe impl Send for SlotConsumer {}

impl SlotConsumer {
    /// The reading end of an empty ring.
    ///
    /// # Safety
    /// As for [`SlotProducer::new`].
    pub(crate) unsafe fn new(memory: RingMemory) -> Self {
        Self { memory, head: 0, released: 0, tail_seen: 0 }
    }

    /// The oldest message, copied; it stays until [`Self::advance`].
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Option<Slot>, ProtocolViolation> {
        if self.head == self.tail_seen {
            // Acquire pairs with the producer's Release of `tail`.
            let tail = self.memory.tail().load(Ordering::Acquire);
            // What we took and have not released yet is room that the producer does not have.
            if tail.wrapping_sub(self.released) > self.memory.capacity
                || tail.wrapping_sub(self.head) > self.memory.capacity
            {
                return Err(ProtocolViolation::RingIndex);
            }
            self.tail_seen = tail;
            if self.head == tail {
                return Ok(None);
            }
        }
        let slot = self.memory.slot(self.head);
        Ok(Some(std::array::from_fn(|word| slot[word].load(Ordering::Relaxed))))
    }

    /// Takes the message that [`Self::peek`] gave.
    #[inline]
    pub(crate) fn advance(&mut self) {
        debug_assert_ne!(self.head, self.tail_seen, "only what was looked at is taken");
        self.head = self.head.wrapping_add(1);
    }

    /// Tells the producer how far [`Self::advance`] has come.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.head != self.released {
            self.released = self.head;
            // Release pairs with the producer's Acquire of `head`: our reads are over.
            self.memory.head().store(self.head, Ordering::Release);
        }
    }

    /// Whether nothing waits, as far as a peek would see. A protocol violation counts as something.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.memory.tail().load(Ordering::Acquire) == self.head
    }
}

#[cfg(test)]
mod tests;
