//! Stretches of the heap: a ring of bytes, its name in shared words, and who may touch it how.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::region::Region;
use crate::shared_bytes;

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

/// A stretch of a ring that does not wrap. The other side may write there at the same moment, so
/// bytes are only ever copied.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a Region>,
}

impl<'a> Piece<'a> {
    /// # Safety
    /// `bytes` from `start` on lie inside a mapped region that lives for `'a`.
    pub(super) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes, memory: PhantomData }
    }

    /// How long it is.
    #[expect(clippy::len_without_is_empty, reason = "an empty piece is skipped by its length")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Its first `bytes` and the rest.
    pub fn split_at(self, bytes: usize) -> (Self, Self) {
        let first = bytes.min(self.bytes);
        // SAFETY: at most one past the end of the same mapping.
        let rest = unsafe { self.start.add(first) };
        (Self { bytes: first, ..self }, Self { start: rest, bytes: self.bytes - first, ..self })
    }

    /// Where it begins: for a copy of the caller's own, by bytes that may change under it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Copies its first bytes to `to`; how many.
    #[inline]
    pub fn copy_out(&self, to: &mut [u8]) -> usize {
        let bytes = self.bytes.min(to.len());
        // SAFETY: not longer than the piece, which lies in a living mapping.
        unsafe { shared_bytes::copy_out(self.start, &mut to[..bytes]) };
        bytes
    }

    /// Copies the first bytes of `from` to its start; how many.
    #[inline]
    pub fn copy_in(&self, from: &[u8]) -> usize {
        let bytes = self.bytes.min(from.len());
        // SAFETY: not longer than the piece, which lies in a living mapping.
        unsafe { shared_bytes::copy_in(&from[..bytes], self.start) };
        bytes
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
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for as long as this value lives, and nobody on this side writes while it
        // is borrowed. The application may: all that is ever done with the slice is one copy out of
        // it, and checks are made on that copy, so that a torn byte is that application's own.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.desc.bytes() as usize) }
    }

    /// Bytes to be copied into.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; the only thing done with the slice is to copy into it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.desc.bytes() as usize) }
    }
}
