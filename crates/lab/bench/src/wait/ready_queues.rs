//! Queues that several consumers share: whoever claims one owns it for a batch.
//!
//! Scale-up: one set of queues, any consumer takes any ready one, and a slow item holds up its own
//! queue only. Packets of a queue stay in order, because a queue has one owner at a time: the bit
//! that says "ready" is taken by one consumer, and comes back only by that consumer's own doing.

use std::sync::{Mutex, MutexGuard};

use shm::{Ready, ReadySet};

/// Queues, or consuming ends of queues, with a [`ReadySet`] in memory of this process.
pub(super) struct ReadyQueues<T> {
    set: ReadySet,
    /// Whoever took a queue's bit of `set` has its lock, and waits for it no longer than the last
    /// owner takes from giving the bit back to its end.
    items: Box<[Mutex<T>]>,
}

impl<T: Send> ReadyQueues<T> {
    /// All armed: each is claimed after its first mark.
    pub(super) fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: Box<[Mutex<T>]> = items.into_iter().map(Mutex::new).collect();
        let queues = u32::try_from(items.len()).unwrap_or(u32::MAX);
        Self { set: ReadySet::new(queues), items }
    }

    /// Something was published in the queue. True: a sleeping consumer is to be rung.
    #[inline]
    pub(super) fn set_ready(&self, queue: u32) -> bool {
        self.set.set_ready(queue)
    }

    /// Claims a ready queue, beginning at number `cursor` and then around.
    #[inline]
    pub(super) fn claim(&self, cursor: &mut u32) -> Option<Claim<'_, T>> {
        let mut claimed = None;
        // A word that another consumer emptied first counts as a look too: some are allowed.
        for _ in 0..4 {
            self.set.claim(cursor, 1, |ready| claimed = Some(ready));
            if claimed.is_some() || self.set.is_quiet() {
                break;
            }
        }
        let ready = claimed?;
        let item = self.items[ready.queue() as usize].lock().expect("its owner has not panicked");
        Some(Claim { set: &self.set, item, ready: Some(ready) })
    }

    /// Whether no queue is ready.
    pub(super) fn is_quiet(&self) -> bool {
        self.set.is_quiet()
    }
}

/// The only way to a queue while it lives. Dropped, it leaves the queue ready for the next one.
pub(super) struct Claim<'queues, T> {
    set: &'queues ReadySet,
    item: MutexGuard<'queues, T>,
    /// `None` once it was armed.
    ready: Option<Ready>,
}

impl<T> Claim<'_, T> {
    /// Works on the queue.
    #[inline]
    pub(super) fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.item)
    }

    /// The queue was found empty: arms it. `Some`: something came in between, look again.
    #[inline]
    pub(super) fn rearm(mut self) -> Option<Self> {
        let ready = self.ready.take()?;
        match self.set.rearm(ready) {
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
            self.set.put_back(ready);
        }
    }
}

#[cfg(test)]
mod tests;
