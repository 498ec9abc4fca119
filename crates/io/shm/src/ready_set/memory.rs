//! Where the bits, the gates and the doorbell of a set lie: on the heap, or in a region.
//!
//! ```text
//! 0      region header (magic, version, kind, features)
//! 64     queues: u32, written once by the maker
//! 128    the consumer's doorbell
//! 256    words, one per 128 bytes: level 0, then the levels above it
//! ...    gates, one per 64 bytes
//! ```

use std::fmt;
use std::ptr::NonNull;

use crate::doorbell::Doorbell;
#[cfg(not(loom))]
use crate::region::{MapError, Region, RegionError, RegionKind};
use crate::sync::{Arc, AtomicU64, OwnLine};

use super::QUEUES_MAX;

/// Bits of a word that are used. A model has two, so that a few queues have every level.
pub(super) const FAN_LOG2: u32 = if cfg!(loom) { 1 } else { 6 };
pub(super) const FAN: usize = 1 << FAN_LOG2;

const LEVELS_MAX: usize = 3;

#[cfg(not(loom))]
const QUEUES_AT: usize = 64;
#[cfg(not(loom))]
const DOORBELL_AT: usize = 128;
#[cfg(not(loom))]
const WORDS_AT: usize = 256;

/// A queue's gate, on a cache line of its own: its producer adds to it all the time.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Gate(AtomicU64);

/// How many words each level has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    queues: u32,
    levels: usize,
    top_mask: u64,
    /// By level: its first word, and how many it has.
    words: [(usize, usize); LEVELS_MAX],
}

impl Shape {
    fn new(queues: u32) -> Self {
        let mut shape = Self { queues, levels: 0, top_mask: 0, words: [(0, 0); LEVELS_MAX] };
        let (mut first, mut count) = (0, queues as usize);
        while shape.levels < LEVELS_MAX && (count > 1 || shape.levels == 0) {
            // Fewer than a word's bits on the last turn.
            shape.top_mask = u64::MAX >> (64 - count.min(64));
            count = count.div_ceil(FAN);
            shape.words[shape.levels] = (first, count);
            shape.levels += 1;
            first += count;
        }
        shape
    }

    fn word_count(&self) -> usize {
        let (first, count) = self.words[self.levels - 1];
        first + count
    }

    #[cfg(not(loom))]
    fn words_bytes(&self) -> usize {
        self.word_count() * size_of::<OwnLine<AtomicU64>>()
    }

    #[cfg(not(loom))]
    fn bytes(&self) -> usize {
        WORDS_AT + bytes_within(self.queues)
    }
}

/// What the words and gates of a set take, in whole lines.
#[cfg(not(loom))]
pub(super) fn bytes_within(queues: u32) -> usize {
    let gates = queues as usize * size_of::<Gate>();
    let line = align_of::<OwnLine<AtomicU64>>();
    (Shape::new(queues).words_bytes() + gates).next_multiple_of(line)
}

/// The memory of one set.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    shape: Shape,
    words: NonNull<OwnLine<AtomicU64>>,
    gates: NonNull<Gate>,
    doorbell: NonNull<Doorbell>,
    #[cfg_attr(loom, expect(dead_code, reason = "it only keeps the memory"))]
    keep: Keep,
}

// SAFETY: everything that the pointers lead to is atomics, kept by `keep` from any thread.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

/// What keeps the memory.
#[derive(Clone, Debug)]
enum Keep {
    #[expect(dead_code, reason = "it only keeps the memory")]
    Own(Arc<OwnMemory>),
    #[cfg(not(loom))]
    Shared(Arc<Region>),
}

#[derive(Debug)]
struct OwnMemory {
    words: Box<[OwnLine<AtomicU64>]>,
    gates: Box<[Gate]>,
    doorbell: Doorbell,
}

impl Memory {
    pub(super) fn own(queues: u32) -> Self {
        let shape = Shape::new(queues);
        let own = Arc::new(OwnMemory {
            words: (0..shape.word_count()).map(|_| OwnLine(AtomicU64::new(0))).collect(),
            gates: (0..queues).map(|_| Gate(AtomicU64::new(0))).collect(),
            doorbell: Doorbell::new(),
        });
        Self {
            shape,
            words: NonNull::from(&own.words[0]),
            gates: NonNull::from(&own.gates[0]),
            doorbell: NonNull::from(&own.doorbell),
            keep: Keep::Own(own),
        }
    }

    pub(super) fn queues(&self) -> u32 {
        self.shape.queues
    }

    #[inline]
    pub(super) fn levels(&self) -> usize {
        self.shape.levels
    }

    /// A word of a level; `None`: there is no such word.
    #[inline]
    pub(super) fn word(&self, level: usize, index: usize) -> Option<&AtomicU64> {
        let &(first, count) = self.shape.words[..self.shape.levels].get(level)?;
        if index >= count {
            return None;
        }
        // SAFETY: `first + index` is below the number of words that lie there, kept by `keep`.
        Some(unsafe { &self.words.add(first + index).as_ref().0 })
    }

    /// The one word of the highest level.
    #[inline]
    pub(super) fn top(&self) -> &AtomicU64 {
        self.word(self.shape.levels - 1, 0).expect("the highest level has a word")
    }

    /// The bits of that word that stand for something; another process may have set the others.
    #[inline]
    pub(super) fn top_mask(&self) -> u64 {
        self.shape.top_mask
    }

    /// The gate of a queue, if there is such a queue.
    #[inline]
    pub(super) fn gate(&self, queue: u32) -> Option<&AtomicU64> {
        if queue >= self.shape.queues {
            return None;
        }
        // SAFETY: `queue` is below the number of gates that lie there, kept by `keep`.
        Some(unsafe { &self.gates.add(queue as usize).as_ref().0 })
    }

    pub(super) fn doorbell(&self) -> &Doorbell {
        // SAFETY: the doorbell lies there, kept by `keep`; it is an atomic.
        unsafe { self.doorbell.as_ref() }
    }
}

#[cfg(not(loom))]
impl Memory {
    pub(super) fn create(queues: u32) -> Result<Self, ReadySetError> {
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(ReadySetError::Queues(queues));
        }
        let shape = Shape::new(queues);
        let header = size_of::<crate::region::RegionHeader>();
        let content = shape.bytes() - header;
        let region = Region::create("calisto-ready", RegionKind::ReadySet, header, content)?;
        // SAFETY: inside the mapping, aligned, and nobody else has the fresh region yet.
        unsafe { region.base().add(QUEUES_AT).cast::<u32>().write(queues) };
        Ok(Self::over(region, shape))
    }

    pub(super) fn open(file: std::os::fd::OwnedFd) -> Result<Self, MapError> {
        let region = Region::map(file, RegionKind::ReadySet)?;
        if region.len_bytes() < WORDS_AT {
            return Err(MapError::Sizes);
        }
        // SAFETY: inside the mapping and aligned; read once, because the other side may change it.
        let queues = unsafe { region.base().add(QUEUES_AT).cast::<u32>().read_volatile() };
        if !(1..=QUEUES_MAX).contains(&queues) || region.len_bytes() < Shape::new(queues).bytes() {
            return Err(MapError::Sizes);
        }
        Ok(Self::over(region, Shape::new(queues)))
    }

    pub(super) fn region(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        match &self.keep {
            Keep::Own(_) => None,
            Keep::Shared(region) => Some(region.as_fd()),
        }
    }

    /// The region must be as long as the shape needs.
    fn over(region: Region, shape: Shape) -> Self {
        Self::within(Arc::new(region), DOORBELL_AT, WORDS_AT, shape.queues)
    }

    /// A set whose words, and the gates behind them, begin at one offset of a region and whose
    /// doorbell is at another: both multiples of 128. There must be [`bytes_within`] from
    /// `words_at` on.
    pub(super) fn within(
        region: Arc<Region>,
        doorbell_at: usize,
        words_at: usize,
        queues: u32,
    ) -> Self {
        let shape = Shape::new(queues);
        let fits = words_at + bytes_within(queues) <= region.len_bytes()
            && doorbell_at + size_of::<Doorbell>() <= region.len_bytes();
        assert!(fits, "the caller has compared them");
        let line = align_of::<OwnLine<AtomicU64>>();
        assert!(words_at.is_multiple_of(line) && doorbell_at.is_multiple_of(line), "whole lines");
        // SAFETY: each offset lies inside the mapping; each is a multiple of what is aligned there
        // (128 for words and doorbell, 64 for gates), and so is the mapping's start.
        let at = |offset| unsafe { region.base().add(offset) };
        Self {
            shape,
            words: at(words_at).cast(),
            gates: at(words_at + shape.words_bytes()).cast(),
            doorbell: at(doorbell_at).cast(),
            keep: Keep::Shared(region),
        }
    }
}

/// A shared ready set cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadySetError {
    /// No queue, or too many.
    Queues(u32),
    /// Its memory.
    #[cfg(not(loom))]
    Region(RegionError),
}

#[cfg(not(loom))]
impl From<RegionError> for ReadySetError {
    fn from(error: RegionError) -> Self {
        Self::Region(error)
    }
}

impl fmt::Display for ReadySetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queues(queues) => {
                write!(f, "a ready set of {queues} queues is not possible: use 1 to {QUEUES_MAX}")
            }
            #[cfg(not(loom))]
            Self::Region(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadySetError {}
