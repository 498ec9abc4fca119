//! The right to the bytes of one packet.
//!
//! A [`Frame`] is made only by its [`crate::FramePool`], cannot be copied, and moves through rings
//! by value: only its holder can reach the bytes. That is the whole ownership
//! argument of the data path, and it is checked by the compiler. A frame that is dropped instead
//! of given back is lost to its pool (never unsafe); the pool counts it as outstanding.

use std::fmt;
use std::ptr::NonNull;

use arrayvec::ArrayVec;
use base::{BURST, FrameDesc, FrameMeta};

/// Bytes that come into a cache together.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: u32 = 64;

/// Up to [`BURST`] frames: the unit of work.
pub type Batch = ArrayVec<Frame, BURST>;

/// One packet in one chunk of a pool, and what is known of it.
#[must_use = "a dropped frame is lost to its pool: give it back"]
pub struct Frame {
    /// First byte of the chunk.
    chunk: NonNull<u8>,
    chunk_bytes: u32,
    /// Region offset of the chunk. `desc.offset - chunk_offset` is the room before the packet.
    chunk_offset: u32,
    /// Invariant: `chunk_offset <= offset` and `offset + len <= chunk_offset + chunk_bytes`.
    desc: FrameDesc,
}

// SAFETY: the frame is the only way to its chunk, so moving it moves the right to the bytes.
unsafe impl Send for Frame {}
// SAFETY: a shared frame only gives shared slices.
unsafe impl Sync for Frame {}

impl Frame {
    /// A frame over one chunk, holding an empty packet after `headroom` bytes.
    ///
    /// # Safety
    /// `chunk` points at `chunk_bytes` bytes that stay mapped while the frame lives and that
    /// nothing else reads or writes until the frame is consumed; `headroom <= chunk_bytes`.
    pub(crate) unsafe fn new(
        chunk: NonNull<u8>,
        chunk_offset: u32,
        chunk_bytes: u32,
        headroom: u32,
    ) -> Self {
        debug_assert!(headroom <= chunk_bytes);
        let desc = FrameDesc { offset: chunk_offset + headroom, len: 0, meta: FrameMeta::UNKNOWN };
        Self { chunk, chunk_bytes, chunk_offset, desc }
    }

    /// The packet.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let start = (self.desc.offset - self.chunk_offset) as usize;
        // SAFETY: by the invariant of `desc` the range lies in the chunk, and the chunk is ours.
        unsafe {
            std::slice::from_raw_parts(self.chunk.as_ptr().add(start), self.desc.len as usize)
        }
    }

    /// The packet, to be changed in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = (self.desc.offset - self.chunk_offset) as usize;
        // SAFETY: as for `bytes`, and `&mut self` is the only access to the only frame of it.
        unsafe {
            std::slice::from_raw_parts_mut(self.chunk.as_ptr().add(start), self.desc.len as usize)
        }
    }

    /// Asks for the packet's first bytes to come into this CPU's cache. Whoever wrote them is
    /// another CPU or a device; asking for those of a whole batch at once costs one wait instead of
    /// one for each packet.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let start = (self.desc.offset - self.chunk_offset) as usize;
            let first = self.chunk.as_ptr().wrapping_add(start).cast::<i8>();
            // SAFETY: a prefetch reads nothing that the program can see, and faults nowhere.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first) };
            if self.desc.len > CACHE_LINE_BYTES {
                let second = first.wrapping_add(CACHE_LINE_BYTES as usize);
                // SAFETY: as above.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(second) };
            }
        }
    }

    /// The `N` bytes before the packet, for whoever takes it over to read; nothing when the chunk
    /// begins later.
    #[inline]
    pub fn before_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let start = (self.desc.offset - self.chunk_offset) as usize;
        let start = start.checked_sub(N)?;
        // SAFETY: the packet begins in the chunk, `N` bytes or more behind the chunk's start, so
        // these bytes lie in the chunk, and `&mut self` is the only access to it.
        unsafe { self.chunk.as_ptr().add(start).cast::<[u8; N]>().as_mut() }
    }

    /// Makes the packet `len` bytes long, keeping its start; false (and no change) when the chunk
    /// has no room for that. Bytes that come into view hold whatever the chunk held.
    #[inline]
    #[must_use]
    pub fn set_len(&mut self, len: usize) -> bool {
        if len > self.room() {
            return false;
        }
        self.desc.len = len as u32;
        true
    }

    /// Puts `bytes` in front of the packet, into the room before it; false (and no change) when the
    /// chunk begins too late for that. What the meta says of places in the packet is then off by as
    /// much, and is whoever did it to put right.
    #[inline]
    #[must_use]
    pub fn push_front(&mut self, bytes: usize) -> bool {
        if bytes > (self.desc.offset - self.chunk_offset) as usize {
            return false;
        }
        self.desc.offset -= bytes as u32;
        self.desc.len += bytes as u32;
        true
    }

    /// Takes `bytes` away from the front of the packet; false (and no change) when it is not as
    /// long. For the meta as [`Self::push_front`].
    #[inline]
    #[must_use]
    pub fn pull_front(&mut self, bytes: usize) -> bool {
        if bytes > self.len() {
            return false;
        }
        self.desc.offset += bytes as u32;
        self.desc.len -= bytes as u32;
        true
    }

    /// The largest length that [`Self::set_len`] takes.
    #[inline]
    pub fn room(&self) -> usize {
        (self.chunk_offset + self.chunk_bytes - self.desc.offset) as usize
    }

    /// Bytes of the packet.
    #[inline]
    pub fn len(&self) -> usize {
        self.desc.len as usize
    }

    /// Whether the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.desc.len == 0
    }

    /// Copies `packet` in; false (and an unchanged frame) when it does not fit.
    #[must_use]
    pub fn fill(&mut self, packet: &[u8]) -> bool {
        if !self.set_len(packet.len()) {
            return false;
        }
        self.bytes_mut().copy_from_slice(packet);
        true
    }

    /// The form that may cross a process boundary.
    #[inline]
    pub fn desc(&self) -> &FrameDesc {
        &self.desc
    }

    /// What is known of the packet.
    #[inline]
    pub fn meta(&self) -> &FrameMeta {
        &self.desc.meta
    }

    /// What is known of the packet, to be changed.
    #[inline]
    pub fn meta_mut(&mut self) -> &mut FrameMeta {
        &mut self.desc.meta
    }

    /// Places the packet at region offset `offset`; false when that leaves the chunk.
    #[inline]
    pub(crate) fn place(&mut self, offset: u32, len: u32) -> bool {
        let end = self.chunk_offset + self.chunk_bytes;
        if offset < self.chunk_offset || offset > end || len > end - offset {
            return false;
        }
        self.desc.offset = offset;
        self.desc.len = len;
        true
    }

    #[inline]
    pub(crate) fn chunk_offset(&self) -> u32 {
        self.chunk_offset
    }

    #[inline]
    pub(crate) fn chunk(&self) -> NonNull<u8> {
        self.chunk
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("desc", &self.desc).finish_non_exhaustive()
    }
}
