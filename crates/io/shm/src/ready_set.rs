//! Which of many queues have something: a wait on all of them that looks at none that is empty.
//!
//! The consumer of many queues owns a set of bits, 64 to a word and a word for 64 words, two levels
//! for 4096 queues and a third for more. A producer that has published calls
//! [`ReadySet::set_ready`]; it sets the queue's bit only when the consumer has *armed* the queue,
//! so that a busy queue costs one addition on a line of its own. The consumer takes set bits with
//! [`ReadySet::claim`], whatever the number of queues, and the queue is then its own: nobody else
//! finds its bit until it is put back or armed again.
//!
//! Arming cannot lose anything: a queue's *gate* counts its ready bits, the consumer notes the
//! count before it empties the queue, and [`ReadySet::rearm`] is one compare-exchange from that
//! very count to "armed". If a ready bit came in between, it fails, and the consumer looks again.
//! So what was marked before was seen, what is marked after finds an armed gate, and no fence is
//! needed.
//!
//! Read next: [`sched::DrrScheduler`] for the order among claimed queues, [`crate::Doorbell`] for
//! sleeping.
//!
//! [`ReadySet::set_ready`]: crate::ReadySet::set_ready
//! [`ReadySet::claim`]: crate::ReadySet::claim
//! [`ReadySet::rearm`]: crate::ReadySet::rearm

mod bits;
mod lines;
mod memory;

use crate::doorbell::Doorbell;
use crate::sync::{AtomicU64, Ordering};
use memory::Memory;

pub use memory::ReadySetError;

/// Queues of a set, at most: three levels.
pub const QUEUES_MAX: u32 = 1 << 18;

/// The gate's lowest bit: not armed. The others count marks. Zero is an armed gate without marks,
/// so that fresh memory is a fresh set.
const CLOSED: u64 = 1;
const MARK: u64 = 2;

/// The ready queues of one consumer, or of several that share the work. Cloning gives another view
/// of the same set.
#[derive(Clone, Debug)]
pub struct ReadySet {
    memory: Memory,
}

/// The right to take from one queue, as claimed.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a queue that is neither armed nor put back is never ready again"]
pub struct Ready {
    queue: u32,
    /// The gate when the queue was claimed, or looked at again.
    seen: u64,
}

impl Ready {
    /// Which queue.
    pub fn queue(&self) -> u32 {
        self.queue
    }
}

impl ReadySet {
    /// A set in memory of this process; every queue is armed.
    ///
    /// # Panics
    /// No queue, or more than [`QUEUES_MAX`]: a programmer's error.
    pub fn new(queues: u32) -> Self {
        assert!((1..=QUEUES_MAX).contains(&queues), "a ready set is for 1 to {QUEUES_MAX} queues");
        Self { memory: Memory::own(queues) }
    }

    /// Queues are numbered below this.
    pub fn queues(&self) -> u32 {
        self.memory.queues()
    }

    /// Something is going to be published in the queue: brings its gate here while that is being
    /// written.
    #[inline]
    pub fn prepare(&self, queue: u32) {
        if let Some(gate) = self.memory.gate(queue) {
            lines::fetch_to_write(gate);
        }
    }

    /// Something was published in the queue. True: the consumer had armed it and the bit was set,
    /// so a sleeping consumer is to be rung ([`Self::doorbell`]). A number that no queue has is
    /// ignored.
    #[inline]
    pub fn set_ready(&self, queue: u32) -> bool {
        let Some(gate) = self.memory.gate(queue) else { return false };
        // Release: whoever reads the count sees what was published before it. Acquire: pairs with
        // the consumer's arming, so that it hands over what it did with the queue.
        if gate.fetch_add(MARK, Ordering::AcqRel) & CLOSED != 0 {
            return false;
        }
        self.take_edge(queue, gate)
    }

    #[cold]
    fn take_edge(&self, queue: u32, gate: &AtomicU64) -> bool {
        self.fetch_words(queue);
        // Of several producers only one takes the edge.
        if gate.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED != 0 {
            return false;
        }
        self.set(queue);
        true
    }

    /// Claims up to `most` ready queues, beginning at number `cursor` and then around, and moves
    /// the cursor behind the last one. Returns how many. Looks at as many words as there are ready
    /// queues, and at most at `most` others. Who is ready to take all of them gets them by number,
    /// at a lower price.
    #[inline]
    pub fn claim(&self, cursor: &mut u32, most: u32, mut each: impl FnMut(Ready)) -> u32 {
        let mut claimed = 0;
        let start = *cursor;
        let mut left = most;
        let mut claim = |queue| {
            let Some(gate) = self.memory.gate(queue) else { return };
            claimed += 1;
            *cursor = queue + 1;
            each(Ready { queue, seen: gate.load(Ordering::Acquire) });
        };
        if most >= self.queues() {
            self.take_all(&mut claim);
        } else {
            self.take(start, &mut left, &mut claim);
        }
        claimed
    }

    /// The queue was found empty after it was claimed, or after the last call: arms it.
    ///
    /// # Errors
    /// Something came in between; the queue is still the caller's, to look at again.
    #[inline]
    pub fn rearm(&self, ready: Ready) -> Result<(), Ready> {
        let Ready { queue, seen } = ready;
        let Some(gate) = self.memory.gate(queue) else { return Ok(()) };
        // Release: the next claimer, which gets the queue by way of a producer's `set_ready`, sees
        // what we did with it. Acquire: on failure we see what was published.
        match gate.compare_exchange(seen, seen & !CLOSED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(seen) => Err(Ready { queue, seen }),
        }
    }

    /// Leaves the queue ready for whoever claims next: there is more in it than was taken.
    #[inline]
    pub fn put_back(&self, ready: Ready) {
        self.set(ready.queue);
    }

    /// Whether no queue is ready. For the last look before a sleep, after [`Doorbell::arm`].
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.memory.top().load(Ordering::Acquire) & self.memory.top_mask() == 0
    }

    /// The word that is not zero while a queue is ready, to watch its cache line.
    pub fn summary(&self) -> &AtomicU64 {
        self.memory.top()
    }

    /// Whether the consumer sleeps. Several consumers have one doorbell each, of their own.
    pub fn doorbell(&self) -> &Doorbell {
        self.memory.doorbell()
    }
}

/// A set that two processes share.
///
/// Both ends believe nothing: a bit, a count or a gate that the other side wrote at will makes a
/// queue be looked at that is empty, or not be looked at, and that is all. Only one consumer may
/// claim, since a forged bit could give a queue to two.
#[cfg(not(loom))]
impl ReadySet {
    /// A set in a region of its own, which [`Self::region`] names to the other process.
    ///
    /// # Errors
    /// The number of queues, or the region could not be made.
    pub fn create_shared(queues: u32) -> Result<Self, ReadySetError> {
        Ok(Self { memory: Memory::create(queues)? })
    }

    /// A set inside a region that holds other things too: words and gates from `words_at` on, as
    /// many bytes as [`Self::bytes_within`] says, and a doorbell at `doorbell_at`. Both are whole
    /// lines.
    pub(crate) fn within(
        region: crate::sync::Arc<crate::Region>,
        doorbell_at: usize,
        words_at: usize,
        queues: u32,
    ) -> Self {
        Self { memory: Memory::within(region, doorbell_at, words_at, queues) }
    }

    /// What the words and gates of a set take inside another region.
    pub(crate) fn bytes_within(queues: u32) -> usize {
        memory::bytes_within(queues)
    }

    /// Maps a set that another process made.
    ///
    /// # Errors
    /// It is no region of a ready set, or not the size that it says.
    pub fn open(file: std::os::fd::OwnedFd) -> Result<Self, crate::MapError> {
        Ok(Self { memory: Memory::open(file)? })
    }

    /// The region of a shared set.
    pub fn region(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.memory.region()
    }
}

#[cfg(test)]
mod tests;
