//! Stretches of the heap: a ring of bytes, its name in shared words, and who may touch it how.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use piece::{Piece, ReadPiece};

use crate::region::Region;

/// Shortest and longest ring, as base-2 logarithms of bytes.
pub(super) const LOG2_MIN: u8 = 10;
pub(super) const LOG2_MAX: u8 = 30;

/// Where a ring lies, in one word: bytes from the heap's start in the low 56 bits, the base-2
/// logarithm of its length in the high 8. Zero: there is none.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct RingDesc(u64);

impl RingDesc {
    /// No ring.
    pub const NONE: Self = Self(0);

    pub(super) const fn new(offset: u64, log2: u8) -> Self {
        Self(offset | (log2 as u64) << 56)
    }

    /// The word.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// What a shared word says; whether there is such a ring is another question.
    pub const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// Whether there is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Base-2 logarithm of its length; nothing when there is none, or no ring is so long.
    pub const fn log2(self) -> Option<u8> {
        let log2 = (self.0 >> 56) as u8;
        if self.0 != 0 && log2 >= LOG2_MIN && log2 <= LOG2_MAX { Some(log2) } else { None }
    }

    /// Its length in bytes; zero when there is none.
    pub fn bytes(self) -> u64 {
        self.log2().map_or(0, |log2| 1 << log2)
    }

    /// Bytes from the start of the heap.
    pub const fn offset(self) -> u64 {
        self.0 & ((1 << 56) - 1)
    }
}

impl fmt::Debug for RingDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}", self.bytes(), self.offset())
    }
}

/// The right to a ring in an application's region: the daemon's. It has one holder and goes back to
/// the [`super::Heap`] that lent it.
#[derive(Debug)]
pub struct RingMemory {
    start: NonNull<u8>,
    desc: RingDesc,
    /// Keeps the mapping.
    _region: Arc<Region>,
}

// SAFETY: an address range of a mapping that is kept alive; only the holder of this value copies
// from and to it on the daemon's side.
unsafe impl Send for RingMemory {}
// SAFETY: through a shared reference bytes are only read.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// # Safety
    /// The ring of `desc` starts at `start`, lies inside `region`, and nobody else on this side has
    /// it.
    pub(super) unsafe fn new(start: NonNull<u8>, desc: RingDesc, region: Arc<Region>) -> Self {
        Self { start, desc, _region: region }
    }

    /// Its name.
    pub fn desc(&self) -> RingDesc {
        self.desc
    }

    /// Bytes to be copied from, once: the application may change them at any time, so that nothing
    /// may be concluded from a first look for a second one.
    #[inline]
    pub fn read_piece(&self) -> ReadPiece<'_> {
        // SAFETY: mapped for as long as this value lives, and nobody on this side has a reference
        // there, or writes while it is borrowed.
        unsafe { ReadPiece::new(self.start, self.desc.bytes() as usize) }
    }

    /// Bytes to be copied into.
    #[inline]
    pub fn piece(&mut self) -> Piece<'_> {
        // SAFETY: as for `read_piece`.
        unsafe { Piece::new(self.start, self.desc.bytes() as usize) }
    }
}
