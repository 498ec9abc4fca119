//! Single-producer single-consumer ring.
//!
//! The one way by which frames and messages change threads. Each end caches the other end's index
//! and reads the shared one only when the cached value says full (or empty), so that in the steady
//! state a push or pop touches lines that are already in its own cache. Writing and publishing are
//! two steps ([`Producer::stage`], [`Producer::publish`]) so that a batch costs one index store.
//!
//! What must hold: slots in `head..tail` are initialised and belong to the consumer, all others
//! belong to the producer; only the producer stores `tail`, only the consumer stores `head`.

use std::mem::MaybeUninit;

use arrayvec::ArrayVec;

use crate::sync::{Arc, AtomicUsize, Ordering, OwnLine, UnsafeCell};

/// Makes a ring that holds `capacity` items.
///
/// # Panics
/// When `capacity` is not a power of two: a programmer's error.
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(capacity.is_power_of_two(), "a ring's capacity is a power of two, not {capacity}");
    let shared = Arc::new(Shared {
        head: OwnLine(AtomicUsize::new(0)),
        tail: OwnLine(AtomicUsize::new(0)),
        slots: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
    });
    let producer = Producer { shared: Arc::clone(&shared), tail: 0, published: 0, head_seen: 0 };
    let consumer = Consumer { shared, head: 0, released: 0, tail_seen: 0 };
    (producer, consumer)
}

struct Shared<T> {
    /// Next item to read. Counts for ever and wraps; a slot is `index & (capacity - 1)`.
    head: OwnLine<AtomicUsize>,
    /// One past the last published item.
    tail: OwnLine<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is reached by one end at a time (see the head of the file), and the item in it
// is `Send`, so the ends may live on different threads.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above; the shared indexes are atomics.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline]
    fn slot(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[index & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Both ends are gone; what was published and never read is still initialised.
        let tail = self.tail.0.load(Ordering::Acquire);
        let mut head = self.head.0.load(Ordering::Acquire);
        while head != tail {
            // SAFETY: `head..tail` is initialised and, with no ends left, belongs to us.
            self.slot(head).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// The end that writes.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// One past the last staged item. After `publish`: equal to `published` and the shared tail.
    tail: usize,
    published: usize,
    /// The consumer's head when last read; the true one is never behind it.
    head_seen: usize,
}

impl<T: Send> Producer<T> {
    /// Writes an item that the consumer will see after [`Self::publish`].
    ///
    /// # Errors
    /// The item comes back when the ring is full.
    #[inline]
    pub fn stage(&mut self, item: T) -> Result<(), T> {
        if self.tail.wrapping_sub(self.head_seen) == self.shared.slots.len() {
            // Acquire pairs with the consumer's Release of `head`: its reads of the slots that we
            // are about to overwrite are over.
            self.head_seen = self.shared.head.0.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head_seen) == self.shared.slots.len() {
                return Err(item);
            }
        }
        // SAFETY: `tail` is not in `head..published tail`, so the slot is ours and holds nothing.
        self.shared.slot(self.tail).with_mut(|slot| unsafe { (*slot).write(item) });
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Shows all staged items to the consumer; true when there were any.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.tail == self.published {
            return false;
        }
        self.published = self.tail;
        // Release pairs with the consumer's Acquire of `tail`: it sees the slots' content.
        self.shared.tail.0.store(self.tail, Ordering::Release);
        true
    }

    /// Stages and publishes one item.
    ///
    /// # Errors
    /// The item comes back when the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        self.stage(item)?;
        self.publish();
        Ok(())
    }

    /// Items staged or published and not yet taken. Exact but for takes under way.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.shared.head.0.load(Ordering::Acquire))
    }

    /// Whether the consumer has taken everything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Items that can be staged now for certain.
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// Items that the ring holds.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// Items ever published.
    #[inline]
    pub fn produced(&self) -> u64 {
        self.published as u64
    }

    /// Items ever taken by the consumer.
    #[inline]
    pub fn consumed(&self) -> u64 {
        self.shared.head.0.load(Ordering::Acquire) as u64
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        // Staged items that were never published are dropped by nobody else.
        while self.published != self.tail {
            // SAFETY: `published..tail` was written by `stage` and shown to no one.
            self.shared.slot(self.published).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            self.published = self.published.wrapping_add(1);
        }
    }
}

/// The end that reads.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Next item to read. After `release`: equal to `released` and the shared head.
    head: usize,
    released: usize,
    /// The producer's tail when last read; the true one is never behind it.
    tail_seen: usize,
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let item = self.read()?;
        self.release();
        Some(item)
    }

    /// Takes up to as many items as `items` has room for, in order, for one index store.
    #[inline]
    pub fn pop_batch<const N: usize>(&mut self, items: &mut ArrayVec<T, N>) -> usize {
        let before = items.len();
        while !items.is_full() {
            let Some(item) = self.read() else { break };
            items.push(item);
        }
        self.release();
        items.len() - before
    }

    /// The oldest item, left in the ring: the way to work on it in place and to take it only
    /// when the work is complete, so that the ring still holds what a dying consumer left undone.
    #[inline]
    pub fn peek(&mut self) -> Option<&mut T> {
        if !self.has_next() {
            return None;
        }
        // SAFETY: `head` is in `head..tail`, so the slot is initialised and ours; the reference
        // borrows the only consumer, which cannot move past the slot meanwhile.
        let item =
            self.shared.slot(self.head).with_mut(|slot| unsafe { (*slot).assume_init_mut() });
        Some(item)
    }

    /// Takes the oldest item but does not tell the producer yet: see [`Self::release`].
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        self.read()
    }

    /// Tells the producer how far [`Self::take`] has come: one index store for many items.
    #[inline]
    pub fn release(&mut self) {
        if self.head != self.released {
            self.released = self.head;
            // Release pairs with the producer's Acquire of `head`: our reads are over.
            self.shared.head.0.store(self.head, Ordering::Release);
        }
    }

    /// Items published and not taken. Exact but for a publication under way.
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.tail.0.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the producer end still exists. When it does not, what is in the ring is the last.
    pub fn has_producer(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    #[inline]
    fn has_next(&mut self) -> bool {
        if self.head == self.tail_seen {
            // Acquire pairs with the producer's Release of `tail`.
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        }
        self.head != self.tail_seen
    }

    #[inline]
    fn read(&mut self) -> Option<T> {
        if !self.has_next() {
            return None;
        }
        // SAFETY: `head` is in `head..tail`: written, published to us, and not read before.
        let item = self.shared.slot(self.head).with(|slot| unsafe { (*slot).assume_init_read() });
        self.head = self.head.wrapping_add(1);
        Some(item)
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // What was taken must not be dropped a second time with the ring.
        self.shared.head.0.store(self.head, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
