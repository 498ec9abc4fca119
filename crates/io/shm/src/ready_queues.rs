//! Queues that several consumers share: whoever claims one owns it for a batch.
//!
//! Scale-up: one set of queues, any consumer takes any ready one, and a slow item holds up its own
//! queue only. Packets of a queue stay in order, because a queue has one owner at a time: the bit
//! that says "ready" is taken by one consumer, and comes back only by that consumer's own doing.

use crate::ready_set::{Ready, ReadySet};
use crate::sync::UnsafeCell;

/// Queues, or consuming ends of queues, with a [`ReadySet`] in memory of this process.
#[derive(Debug)]
pub struct ReadyQueues<T> {
    set: ReadySet,
    items: Box<[UnsafeCell<T>]>,
}

// SAFETY: an item is reached only through its one `Claim` (see there), so it moves between threads
// like a value that is sent, and is never shared.
unsafe impl<T: Send> Sync for ReadyQueues<T> {}

impl<T: Send> ReadyQueues<T> {
    /// All armed: each is claimed after its first mark.
    ///
    /// # Panics
    /// No queue, or more than [`crate::ready_set::QUEUES_MAX`]: a programmer's error.
    pub fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: Box<[UnsafeCell<T>]> = items.into_iter().map(UnsafeCell::new).collect();
        let queues = u32::try_from(items.len()).unwrap_or(u32::MAX);
        Self { set: ReadySet::new(queues), items }
    }

    /// How many queues.
    pub fn queues(&self) -> u32 {
        self.set.queues()
    }

    /// Something was published in the queue. True: a sleeping consumer is to be rung.
    #[inline]
    pub fn set_ready(&self, queue: u32) -> bool {
        self.set.set_ready(queue)
    }

    /// Claims a ready queue, beginning at number `cursor` and then around.
    #[inline]
    pub fn claim(&self, cursor: &mut u32) -> Option<Claim<'_, T>> {
        let mut claim = None;
        // A word that another consumer emptied first counts as a look too: some are allowed.
        for _ in 0..4 {
            self.set.claim(cursor, 1, |ready| {
                claim = Some(Claim { queues: self, ready: Some(ready) });
            });
            if claim.is_some() || self.set.is_quiet() {
                break;
            }
        }
        claim
    }

    /// Whether no queue is ready. For the last look before a sleep, after [`crate::Doorbell::arm`].
    pub fn is_quiet(&self) -> bool {
        self.set.is_quiet()
    }
}

/// The only way to a queue while it lives. Dropped, it leaves the queue ready for the next one.
#[derive(Debug)]
pub struct Claim<'queues, T> {
    queues: &'queues ReadyQueues<T>,
    /// `None` once it was armed.
    ready: Option<Ready>,
}

impl<T> Claim<'_, T> {
    /// Which queue.
    pub fn queue(&self) -> u32 {
        self.ready.as_ref().map_or(0, Ready::queue)
    }

    /// Works on the queue.
    #[inline]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        let item = &self.queues.items[self.queue() as usize];
        item.with_mut(|item| {
            // SAFETY: the set's memory is private to `queues`, so its bit was set once since the
            // last claim of this queue ended: by a mark that closed the gate which that claim's
            // `rearm` had opened, or by its `put_back`. Taking a bit is one atomic step, so no
            // other `Claim` of this queue lives, and its orderings show us what the last one did.
            work(unsafe { &mut *item })
        })
    }

    /// The queue was found empty: arms it. `Some`: something came in between, look again.
    #[inline]
    pub fn rearm(mut self) -> Option<Self> {
        let ready = self.ready.take()?;
        match self.queues.set.rearm(ready) {
            Ok(()) => None,
            Err(ready) => {
                self.ready = Some(ready);
                Some(self)
            }
        }
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        if let Some(ready) = self.ready.take() {
            self.queues.set.put_back(ready);
        }
    }
}

#[cfg(test)]
mod tests;
