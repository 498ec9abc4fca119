//! The frames of one region, lent out and taken back.
//!
//! One thread owns a pool: it is the filler of every port that shares the region (a UMEM has one
//! fill ring's worth of truth). Workers receive frames through rings and send them back through
//! rings. What must hold: a chunk is in exactly one place, *home* (free), *out* (a [`Frame`]
//! exists) or *kernel* (an address was given to a kernel ring), and only the pool changes that.

use std::fmt;
use std::sync::Arc;

use crate::frame::Frame;
use crate::region::{Region, RegionError, RegionKind};

/// Bytes before a fresh packet, so that a header can be put in front of it without a copy.
pub const HEADROOM_BYTES: u32 = 256;

/// Size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// How many frames.
    pub frames: u32,
    /// Bytes of a chunk, room and all: 2048 or 4096 (what AF_XDP takes as aligned chunks).
    pub chunk_bytes: u32,
    /// NUMA node that the pages should be on, noted for status and `doctor`; `None`: unknown.
    pub numa_node: Option<u16>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { frames: 4096, chunk_bytes: 4096, numa_node: None }
    }
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Home,
    Out,
    Kernel,
}

/// All frames of one region.
pub struct FramePool {
    /// `None` only while dropping.
    region: Option<Arc<Region>>,
    config: PoolConfig,
    /// Chunk numbers at home; chunk 0 holds the region header and is never among them.
    /// Last in, first out: the chunk used last is the one still in cache.
    free: Vec<u32>,
    place: Vec<ChunkState>,
    chunk_shift: u32,
    foreign: u64,
}

impl FramePool {
    /// Makes a pool with every frame at home.
    ///
    /// # Errors
    /// A size that is not possible, or the region could not be made.
    pub fn new(config: PoolConfig) -> Result<Self, PoolError> {
        let PoolConfig { frames, chunk_bytes, numa_node: _ } = config;
        if !matches!(chunk_bytes, 2048 | 4096) {
            return Err(PoolError::ChunkBytes(chunk_bytes));
        }
        if frames == 0 || u64::from(frames) + 1 > u64::from(u32::MAX / chunk_bytes) {
            return Err(PoolError::Frames { frames, max: u32::MAX / chunk_bytes - 1 });
        }
        let chunk = chunk_bytes as usize;
        let region =
            Region::create("calisto-frames", RegionKind::Frames, chunk, frames as usize * chunk)
                .map_err(PoolError::Region)?;
        Ok(Self {
            region: Some(Arc::new(region)),
            config,
            free: (1..=frames).rev().collect(),
            place: vec![ChunkState::Home; frames as usize + 1],
            chunk_shift: chunk_bytes.trailing_zeros(),
            foreign: 0,
        })
    }

    /// Takes an empty frame; `None` when all are lent.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        let chunk = self.free.pop()?;
        Some(self.frame_of(chunk))
    }

    /// Takes a frame back. A frame of another pool is not ours to free: it stays lost and counted.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        let Some(chunk) = self.chunk_of(&frame) else {
            return;
        };
        debug_assert_eq!(self.place[chunk as usize], ChunkState::Out);
        self.place[chunk as usize] = ChunkState::Home;
        self.free.push(chunk);
    }

    /// Hands a frame to a kernel ring: the region offset of its packet. Until [`Self::reclaim`]
    /// the kernel owns the bytes. `None` (and a lost, counted frame) for a frame of another pool.
    #[inline]
    pub fn lend(&mut self, frame: Frame) -> Option<u64> {
        let chunk = self.chunk_of(&frame)?;
        debug_assert_eq!(self.place[chunk as usize], ChunkState::Out);
        self.place[chunk as usize] = ChunkState::Kernel;
        Some(u64::from(frame.desc().offset))
    }

    /// Takes a frame back from a kernel ring: `offset` is any region offset inside its chunk, and
    /// the packet becomes `len` bytes from there. `None` when the kernel does not have that chunk
    /// or the packet would leave it: the ring is corrupt, and the caller counts that.
    #[inline]
    pub fn reclaim(&mut self, offset: u64, len: u32) -> Option<Frame> {
        let offset = u32::try_from(offset).ok()?;
        let chunk = offset >> self.chunk_shift;
        if *self.place.get(chunk as usize)? != ChunkState::Kernel {
            return None;
        }
        let mut frame = self.frame_of(chunk);
        if !frame.place(offset, len) {
            self.place[chunk as usize] = ChunkState::Kernel;
            return None;
        }
        Some(frame)
    }

    /// The region, to register it with the kernel (AF_XDP: offset 0 of the UMEM is offset 0 here).
    /// It stays mapped for as long as a clone of it is kept, whatever becomes of the pool.
    pub fn region(&self) -> &Arc<Region> {
        self.region.as_ref().expect("only `drop` takes the region")
    }

    /// The sizes it was made with.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Frames at home.
    #[inline]
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Frames that are out or in the kernel.
    pub fn outstanding(&self) -> usize {
        self.config.frames as usize - self.free.len()
    }

    /// Frames of other pools that were given here and are lost: a bug of the caller.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    #[inline]
    fn frame_of(&mut self, chunk: u32) -> Frame {
        self.place[chunk as usize] = ChunkState::Out;
        let offset = chunk << self.chunk_shift;
        // SAFETY: `chunk <= frames`, so its `chunk_bytes` bytes lie in the mapping.
        let base = unsafe { self.region().base().add(offset as usize) };
        // SAFETY: the chunk was not `Out` (it came from the free list, or the caller saw
        // `Kernel`), so no other frame of it exists; `drop` keeps the mapping while any is out.
        unsafe { Frame::new(base, offset, self.config.chunk_bytes, HEADROOM_BYTES) }
    }

    #[inline]
    fn chunk_of(&mut self, frame: &Frame) -> Option<u32> {
        let offset = frame.chunk_offset() as usize;
        if self.region().base().as_ptr().wrapping_add(offset) != frame.chunk().as_ptr() {
            debug_assert!(false, "a frame came to the wrong pool");
            self.foreign += 1;
            return None;
        }
        Some(frame.chunk_offset() >> self.chunk_shift)
    }
}

impl Drop for FramePool {
    fn drop(&mut self) {
        // A frame that is still out points into the mapping: keep it mapped for ever. The kernel's
        // frames need no such care: it holds its own reference to the pages.
        if self.place.contains(&ChunkState::Out) {
            std::mem::forget(self.region.take());
        }
    }
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramePool")
            .field("config", &self.config)
            .field("free", &self.free.len())
            .finish_non_exhaustive()
    }
}

/// A pool could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// The chunk size is not one that AF_XDP takes.
    ChunkBytes(u32),
    /// None, or more than 32-bit offsets reach.
    Frames {
        /// What was asked for.
        frames: u32,
        /// The most that is possible with this chunk size.
        max: u32,
    },
    /// The memory could not be had.
    Region(RegionError),
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChunkBytes(bytes) => {
                write!(f, "frames of {bytes} bytes are not possible: use 2048 or 4096")
            }
            Self::Frames { frames, max } => {
                write!(f, "a pool of {frames} frames is not possible: use 1 to {max}")
            }
            Self::Region(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PoolError {}

#[cfg(test)]
mod tests;
