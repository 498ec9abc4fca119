//! The rings that a socket shares with the kernel: two cursors, a flag word, entries.
//!
//! Work is *acquire n, read or write n, release n*. Each ring has one producer and one consumer
//! and one of them is the kernel, so each side keeps its own cursor locally, publishes it with a
//! plain Release store, and looks at the other's only when what it knows of does not suffice.
//! Cursors count for ever and wrap; an entry is `cursor & mask`.
//!
//! What must hold: entries in `consumer..producer` belong to the consumer, the others to the
//! producer. The kernel upholds its half; a cursor of its that makes no sense is bounded here.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::if_xdp::{RingOffset, XDP_RING_NEED_WAKEUP, XdpDesc};

/// What a ring can hold.
///
/// # Safety
/// Every bit pattern is a value: the other side may write any.
pub(crate) unsafe trait Entry: Copy {}
// SAFETY: a number.
unsafe impl Entry for u64 {}
// SAFETY: three numbers without padding.
unsafe impl Entry for XdpDesc {}

/// Memory that holds a ring and outlives it.
pub(crate) trait RingMemory: Send + Sync {
    /// Its first byte, aligned to 8.
    fn base(&self) -> NonNull<u8>;
    /// Its length.
    fn len_bytes(&self) -> usize;
}

/// Where the parts of one ring are.
struct Parts<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// Entries less one; the count is a power of two.
    mask: u32,
    /// Keeps the pointers above valid.
    _memory: Arc<dyn RingMemory>,
}

// SAFETY: the pointers lead into memory that `_memory` keeps; cursors and flags are atomics, and
// entries are reached by one side at a time (head of the file).
unsafe impl<T: Entry> Send for Parts<T> {}

impl<T: Entry> Parts<T> {
    /// The ring of `count` entries whose parts lie at `offset` of `memory`; `None` when they do
    /// not fit or are not aligned.
    fn new(memory: Arc<dyn RingMemory>, offset: &RingOffset, count: u32) -> Option<Self> {
        let at = |offset: u64, bytes: usize, align: usize| {
            let offset = usize::try_from(offset).ok()?;
            let fits = offset.checked_add(bytes)? <= memory.len_bytes();
            // SAFETY: `offset` is inside of the memory.
            (fits && offset % align == 0).then(|| unsafe { memory.base().add(offset) })
        };
        if !count.is_power_of_two() || !memory.base().addr().get().is_multiple_of(8) {
            return None;
        }
        Some(Self {
            producer: at(offset.producer, 4, 4)?.cast(),
            consumer: at(offset.consumer, 4, 4)?.cast(),
            flags: at(offset.flags, 4, 4)?.cast(),
            entries: at(offset.desc, size_of::<T>() * count as usize, align_of::<T>())?.cast(),
            mask: count - 1,
            _memory: memory,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: aligned, inside of memory that lives as long as `self`, and only used as atomic.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as for `producer`.
        let flags = unsafe { self.flags.as_ref() };
        // Relaxed: the flag orders nothing, it is a hint that is looked at after every batch.
        flags.load(Ordering::Relaxed) & XDP_RING_NEED_WAKEUP != 0
    }

    #[inline]
    fn entry(&self, cursor: u32) -> NonNull<T> {
        // SAFETY: `cursor & mask` is less than the count, so the entry is inside of the memory.
        unsafe { self.entries.add((cursor & self.mask) as usize) }
    }
}

/// Our end of the fill or transmit ring.
pub(crate) struct Producer<T: Entry> {
    parts: Parts<T>,
    /// One past the last entry given to the consumer. Always equal to the shared cursor.
    tail: u32,
    /// The consumer's cursor when last read.
    head_seen: u32,
}

impl<T: Entry> Producer<T> {
    /// The producing end of a ring; `None` when it does not fit its memory.
    pub(crate) fn new(
        memory: Arc<dyn RingMemory>,
        offset: &RingOffset,
        count: u32,
    ) -> Option<Self> {
        let parts = Parts::new(memory, offset, count)?;
        let tail = parts.producer().load(Ordering::Acquire);
        let head_seen = parts.consumer().load(Ordering::Acquire);
        Some(Self { parts, tail, head_seen })
    }

    /// How many entries may be written now, up to `wanted`.
    #[inline]
    pub(crate) fn acquire(&mut self, wanted: u32) -> u32 {
        let size = self.parts.mask + 1;
        let mut free = size.saturating_sub(self.tail.wrapping_sub(self.head_seen));
        if free < wanted {
            // Acquire pairs with the consumer's Release: it has read what we will overwrite.
            self.head_seen = self.parts.consumer().load(Ordering::Acquire);
            free = size.saturating_sub(self.tail.wrapping_sub(self.head_seen));
        }
        free.min(wanted)
    }

    /// Writes the `index`-th of the acquired entries.
    #[inline]
    pub(crate) fn write(&mut self, index: u32, entry: T) {
        debug_assert!(index <= self.parts.mask);
        let slot = self.parts.entry(self.tail.wrapping_add(index));
        // SAFETY: an acquired entry is ours until `release` (and its memory is valid anyway).
        unsafe { slot.write(entry) };
    }

    /// Gives the first `count` acquired entries to the consumer.
    #[inline]
    pub(crate) fn release(&mut self, count: u32) {
        self.tail = self.tail.wrapping_add(count);
        // Release pairs with the consumer's Acquire: it sees the entries. A plain store, since
        // nobody else writes this cursor.
        self.parts.producer().store(self.tail, Ordering::Release);
    }

    /// Entries that the consumer has not taken yet.
    #[inline]
    pub(crate) fn pending(&mut self) -> u32 {
        self.head_seen = self.parts.consumer().load(Ordering::Acquire);
        self.tail.wrapping_sub(self.head_seen)
    }

    /// The same by what was last seen: an upper bound without a shared read.
    #[inline]
    pub(crate) fn pending_seen(&self) -> u32 {
        self.tail.wrapping_sub(self.head_seen)
    }

    /// Whether the kernel asks for a system call.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.parts.needs_wakeup()
    }
}

/// Our end of the receive or completion ring.
pub(crate) struct Consumer<T: Entry> {
    parts: Parts<T>,
    /// The next entry to read. Always equal to the shared cursor.
    head: u32,
    /// The producer's cursor when last read.
    tail_seen: u32,
}

impl<T: Entry> Consumer<T> {
    /// The consuming end of a ring; `None` when it does not fit its memory.
    pub(crate) fn new(
        memory: Arc<dyn RingMemory>,
        offset: &RingOffset,
        count: u32,
    ) -> Option<Self> {
        let parts = Parts::new(memory, offset, count)?;
        let head = parts.consumer().load(Ordering::Acquire);
        Some(Self { parts, head, tail_seen: head })
    }

    /// How many entries may be read now, up to `wanted`.
    #[inline]
    pub(crate) fn acquire(&mut self, wanted: u32) -> u32 {
        let mut ready = self.tail_seen.wrapping_sub(self.head);
        if ready < wanted {
            // Acquire pairs with the producer's Release: we see the entries' content.
            self.tail_seen = self.parts.producer().load(Ordering::Acquire);
            ready = self.tail_seen.wrapping_sub(self.head);
        }
        // More than the ring has would be a cursor gone mad: read each entry once at most.
        ready.min(self.parts.mask + 1).min(wanted)
    }

    /// Reads the `index`-th of the acquired entries.
    #[inline]
    pub(crate) fn read(&self, index: u32) -> T {
        debug_assert!(index <= self.parts.mask);
        let slot = self.parts.entry(self.head.wrapping_add(index));
        // SAFETY: an acquired entry is ours until `release`; any bits are a valid `T`.
        unsafe { slot.read() }
    }

    /// Gives the first `count` acquired entries back to the producer.
    #[inline]
    pub(crate) fn release(&mut self, count: u32) {
        self.head = self.head.wrapping_add(count);
        // Release pairs with the producer's Acquire: our reads are over.
        self.parts.consumer().store(self.head, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
