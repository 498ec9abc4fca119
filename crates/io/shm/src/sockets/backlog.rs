//! The connections that a listener has and nobody has taken yet.
//!
//! A ring of words in shared memory. Any of the daemon's workers may add, any thread of any process
//! that has the listener may take; each does so with one exchange of one word, so that whoever dies
//! leaves nothing half done.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{RegionId, SlotId};

use super::layout::SocketMemory;
use super::ring::{RingDesc, RingMemory};
use super::slot::SlotWords;

/// A connection: its region's number and its slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Never zero.
    pub region: RegionId,
    /// Which slot.
    pub slot: SlotId,
}

impl Entry {
    fn word(self) -> u64 {
        u64::from(self.region.0) << 32 | u64::from(self.slot.0)
    }

    fn of_word(word: u64) -> Option<Self> {
        let (region, slot) = (RegionId((word >> 32) as u32), SlotId(word as u32));
        (region.0 != 0).then_some(Self { region, slot })
    }
}

/// The daemon's end.
#[derive(Debug)]
pub struct Backlog {
    ring: RingMemory,
    /// How many were ever added; never read from shared memory.
    tail: AtomicU64,
    /// How many may wait.
    limit: u64,
}

impl Backlog {
    /// For at most `limit` connections, as far as `ring` has room.
    pub fn new(ring: RingMemory, limit: u32) -> Self {
        let limit = u64::from(limit.max(1)).min(ring.desc().bytes() / 8);
        Self { ring, tail: AtomicU64::new(0), limit }
    }

    /// Connections that may wait, at most.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The ring, to be given back.
    pub fn into_ring(self) -> RingMemory {
        self.ring
    }

    /// Whether as many connections wait as may.
    pub fn is_full(&self, words: &SlotWords) -> bool {
        let head = words.rx_head.load(Ordering::Relaxed);
        self.tail.load(Ordering::Acquire).wrapping_sub(head) >= self.limit
    }

    /// What lies in it: connections that nobody has taken, as far as the application has left them
    /// alone.
    pub fn waiting(&self, memory: &SocketMemory) -> Vec<Entry> {
        let entries = memory.entries(self.ring.desc()).unwrap_or_default();
        let words = entries.iter().map(|word| word.load(Ordering::Acquire));
        words.filter_map(Entry::of_word).collect()
    }

    /// Adds a connection; false when as many as may wait do.
    pub fn push(&self, memory: &SocketMemory, words: &SlotWords, entry: Entry) -> bool {
        let Some(entries) = memory.entries(self.ring.desc()) else { return false };
        loop {
            let tail = self.tail.load(Ordering::Acquire);
            // What the application says it has taken can only make its own backlog shorter.
            let head = words.rx_head.load(Ordering::Relaxed);
            if tail.wrapping_sub(head) >= self.limit {
                return false;
            }
            let word = &entries[(tail % entries.len() as u64) as usize];
            let added =
                word.compare_exchange(0, entry.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if added {
                self.tail.store(tail + 1, Ordering::Release);
                words.rx_tail.store(tail + 1, Ordering::Release);
                return true;
            }
            if self.tail.load(Ordering::Acquire) == tail {
                // Another worker is between the two stores, or the application has filled the place
                // itself.
                return false;
            }
        }
    }

    /// Takes the oldest connection: the application's end.
    pub fn take(memory: &SocketMemory, words: &SlotWords) -> Option<Entry> {
        let tail = words.rx_tail.load(Ordering::Acquire);
        let entries = memory.entries(RingDesc::of_word(words.rx_ring.load(Ordering::Acquire)))?;
        let count = entries.len() as u64;
        let head = words.rx_head.load(Ordering::Relaxed).max(tail.saturating_sub(count));
        for at in head..tail {
            let word = entries[(at % count) as usize].swap(0, Ordering::AcqRel);
            if let Some(entry) = Entry::of_word(word) {
                words.rx_head.fetch_max(at + 1, Ordering::AcqRel);
                return Some(entry);
            }
        }
        None
    }

    /// The connection that [`Self::take`] takes next, unless somebody else is faster.
    pub fn oldest(memory: &SocketMemory, words: &SlotWords) -> Option<Entry> {
        let tail = words.rx_tail.load(Ordering::Acquire);
        let entries = memory.entries(RingDesc::of_word(words.rx_ring.load(Ordering::Acquire)))?;
        let count = entries.len() as u64;
        let head = words.rx_head.load(Ordering::Relaxed).max(tail.saturating_sub(count));
        (head..tail)
            .find_map(|at| Entry::of_word(entries[(at % count) as usize].load(Ordering::Acquire)))
    }

    /// Whether there is a connection to be taken.
    pub fn has_any(memory: &SocketMemory, words: &SlotWords) -> bool {
        let tail = words.rx_tail.load(Ordering::Acquire);
        let desc = RingDesc::of_word(words.rx_ring.load(Ordering::Acquire));
        let Some(entries) = memory.entries(desc) else { return false };
        let count = entries.len() as u64;
        let head = words.rx_head.load(Ordering::Relaxed).max(tail.saturating_sub(count));
        (head..tail).any(|at| entries[(at % count) as usize].load(Ordering::Relaxed) != 0)
    }
}
