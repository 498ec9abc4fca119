//! Received packets of one worker for one listener, until a task takes them: a queue for each class
//! of flow groups, each with one owner at a time.
//!
//! A flow belongs to one group and a group to one class, so the worker that has claimed the class
//! has all packets of the flow that wait, in their order, and no worker gets the next ones until
//! the claim is released. A worker releases its claim only when the packets that it took are done.
//! So another worker may claim the class, and the packets of a flow are still worked on one after
//! the other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{FlowGroup, Nanos};
use shm::{Ready, ReadySet};

/// Classes of flow groups: one word of the ready set.
pub(crate) const CLASSES: u32 = 64;

/// A class taken over so often has an owner that has too much to do.
const STEALS_NOTED: u32 = 8;

/// The time of the oldest packet of an empty class.
const NOTHING: u64 = u64::MAX;

/// The queues; `P` is a packet.
#[derive(Debug)]
pub(crate) struct Inbox<P> {
    ready: ReadySet,
    classes: Box<[Class<P>]>,
    /// Packets in all of them; a hint, except to the thread that puts.
    waiting: AtomicUsize,
    waiting_max: usize,
}

#[derive(Debug)]
struct Class<P> {
    /// The claim says which thread may take, so only the thread that puts meets the lock, briefly.
    packets: Mutex<VecDeque<(Nanos, P)>>,
    /// Since when the first of them waits. Written under the lock; a thief's hint.
    oldest: AtomicU64,
    /// Somebody has claimed it. A hint as well.
    is_held: AtomicBool,
    steals: AtomicU32,
}

impl<P> Class<P> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Nanos, P)>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has become of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The class is empty and will be ready again with the next packet.
    Empty,
    /// More packets wait in it: somebody else may claim it now.
    Ready,
}

impl<P> Inbox<P> {
    /// With room for that many packets at once.
    pub(crate) fn new(waiting_max: usize) -> Self {
        let class = |_| Class {
            packets: Mutex::new(VecDeque::new()),
            oldest: AtomicU64::new(NOTHING),
            is_held: AtomicBool::new(false),
            steals: AtomicU32::new(0),
        };
        Self {
            ready: ReadySet::new(CLASSES),
            classes: (0..CLASSES).map(class).collect(),
            waiting: AtomicUsize::new(0),
            waiting_max,
        }
    }

    /// Puts a packet behind those of its class. For the worker that has received it, alone.
    ///
    /// # Errors
    /// The packet: that many wait already.
    pub(crate) fn put(&self, group: FlowGroup, now: Nanos, packet: P) -> Result<(), P> {
        if self.waiting.load(Ordering::Relaxed) >= self.waiting_max {
            return Err(packet);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let number = group.0 % CLASSES;
        let class = &self.classes[number as usize];
        {
            let mut packets = class.lock();
            packets.push_back((now, packet));
            if packets.len() == 1 {
                class.oldest.store(now.0, Ordering::Relaxed);
            }
        }
        self.ready.set_ready(number);
        Ok(())
    }

    /// Claims a class with packets, from number `cursor` on and around.
    pub(crate) fn claim(&self, cursor: &mut u32) -> Option<Ready> {
        let mut claimed = None;
        self.ready.claim(cursor, 1, |ready| claimed = Some(ready));
        if let Some(ready) = &claimed {
            self.classes[ready.queue() as usize].is_held.store(true, Ordering::Relaxed);
        }
        claimed
    }

    /// Claims a class whose oldest packet has waited for longer than `age`: what another worker may
    /// take over. `Err` with the claim that was got instead, to be released at once.
    pub(crate) fn claim_old(&self, now: Nanos, age: Nanos) -> Option<Result<Ready, Ready>> {
        let number = self.old_class(now, age)?;
        let ready = self.claim(&mut number.clone())?;
        // Another one may have been quicker, and this be the next class.
        let class = &self.classes[ready.queue() as usize];
        Some(if age_of(class, now) > age { Ok(ready) } else { Err(ready) })
    }

    /// A stolen class: whether it is stolen once too often.
    pub(crate) fn note_steal(&self, ready: &Ready) -> bool {
        let steals = &self.classes[ready.queue() as usize].steals;
        steals.fetch_add(1, Ordering::Relaxed) + 1 == STEALS_NOTED
    }

    /// Whether a claimable packet has waited for longer than `age`.
    pub(crate) fn is_late(&self, now: Nanos, age: Nanos) -> bool {
        self.old_class(now, age).is_some()
    }

    fn old_class(&self, now: Nanos, age: Nanos) -> Option<u32> {
        if self.is_quiet() {
            return None;
        }
        (0..CLASSES).find(|&number| {
            let class = &self.classes[number as usize];
            !class.is_held.load(Ordering::Relaxed) && age_of(class, now) > age
        })
    }

    /// Whether no class can be claimed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ready.is_quiet()
    }

    /// The next packet of a claimed class.
    pub(crate) fn take(&self, ready: &Ready) -> Option<P> {
        let class = &self.classes[ready.queue() as usize];
        let mut packets = class.lock();
        let (_, packet) = packets.pop_front()?;
        class
            .oldest
            .store(packets.front().map_or(NOTHING, |(since, _)| since.0), Ordering::Relaxed);
        drop(packets);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(packet)
    }

    /// Everything taken of a claimed class is done.
    pub(crate) fn release(&self, mut ready: Ready) -> Released {
        self.classes[ready.queue() as usize].is_held.store(false, Ordering::Relaxed);
        loop {
            if !self.classes[ready.queue() as usize].lock().is_empty() {
                self.ready.put_back(ready);
                return Released::Ready;
            }
            match self.ready.rearm(ready) {
                Ok(()) => return Released::Empty,
                // A packet came in between, or some did that were taken already: look again.
                Err(again) => ready = again,
            }
        }
    }

    /// Everything that nobody will take any more.
    pub(crate) fn drain(&self) -> Vec<P> {
        let all: Vec<_> = self.classes.iter().flat_map(|class| class.lock().split_off(0)).collect();
        self.waiting.fetch_sub(all.len(), Ordering::Relaxed);
        all.into_iter().map(|(_, packet)| packet).collect()
    }
}

/// How long the oldest packet of a class has waited; nothing waits: not at all.
fn age_of<P>(class: &Class<P>, now: Nanos) -> Nanos {
    now.since(Nanos(class.oldest.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests;
