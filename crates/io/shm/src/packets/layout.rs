//! Where everything lies in an application's region.
//!
//! ```text
//! 0       region header (magic, version, kind, features)
//! 64      sizes: six u32, written once by the daemon
//! 128     state: 0 while attached, then the reason's number (the daemon writes)
//! 256     the daemon's doorbell: not 0 while it sleeps
//! 320     a bit for each worker that has said something at its core grant
//! 384     hand-over words, one per 128 bytes
//! ...     for each worker, each on 128 bytes: head and tail of the ring to it, head and tail of the ring
//!         from it, its doorbell (with the number of the worker that waits for it, plus one; 0: none), its
//!         core grant's word from the daemon and its words back; then the slots of both rings, 64 bytes each
//! ...     which workers have something to say: a ready set, with a doorbell that is not used
//! ...     which workers of those that one thread waits for are to look: another, with its doorbell
//! page    buffers: first those that the daemon fills, then each worker's own
//! ```

use std::fmt;
use std::ptr::NonNull;

use crate::core_grant::CoreGrantWords;
use crate::ready_set::ReadySet;
use crate::region::Region;
use crate::slot_ring::RingMemory;
use crate::sync::{Arc, AtomicU32, AtomicU64, OwnLine};

/// Workers of one application, at most.
pub const WORKERS_MAX: u32 = 64;

/// Slots of a ring, at most.
pub const RING_SLOTS_MAX: u32 = 1 << 14;

/// Buffers of one application, at most: 256 MiB of the largest.
const BUFFERS_MAX: u32 = 1 << 16;

/// Hand-overs that one application can have under way, at most.
const HANDOVERS_MAX: u32 = 1024;

/// Bytes before a delivered packet, so that a header can be put in front of it without a copy.
pub const CHUNK_HEADROOM_BYTES: u32 = 64;

const LINE: usize = 128;
const PAGE: usize = 4096;
const SIZES_AT: usize = 64;
const STATE_AT: usize = LINE;
const DOORBELL_AT: usize = 2 * LINE;
const CORE_GRANTS_AT: usize = DOORBELL_AT + 64;
const HANDOVERS_AT: usize = 3 * LINE;
/// Index words, doorbell and core grant of a worker.
const WORKER_LINES: usize = 7;

/// What a region is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PacketSizes {
    /// Workers: 1 to [`WORKERS_MAX`].
    pub workers: u32,
    /// Slots of each ring: a power of two from 2 to [`RING_SLOTS_MAX`].
    pub ring_slots: u32,
    /// Bytes of a buffer: 2048 or 4096.
    pub chunk_bytes: u32,
    /// Buffers that the daemon fills with received packets: this many packets are with the
    /// application at once, at most.
    pub receive_chunks: u32,
    /// Buffers that each worker has for packets that answer nothing.
    pub send_chunks: u32,
    /// Hand-overs at once.
    pub handovers: u32,
}

impl PacketSizes {
    /// The sizes, when a region can be made for them.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn checked(self) -> Result<Self, SizeError> {
        let Self { workers, ring_slots, chunk_bytes, receive_chunks, send_chunks, handovers } =
            self;
        let within = |what, value: u32, min: u32, max: u32| match value {
            _ if (min..=max).contains(&value) => Ok(()),
            _ => Err(SizeError { what, value, min, max }),
        };
        within("workers", workers, 1, WORKERS_MAX)?;
        within("ring slots", ring_slots, 2, RING_SLOTS_MAX)?;
        if !ring_slots.is_power_of_two() {
            let (what, value) = ("ring slots (a power of two)", ring_slots);
            return Err(SizeError { what, value, min: 2, max: RING_SLOTS_MAX });
        }
        if !matches!(chunk_bytes, 2048 | 4096) {
            let (what, value) = ("bytes of a buffer (2048 or 4096)", chunk_bytes);
            return Err(SizeError { what, value, min: 2048, max: 4096 });
        }
        within("receive buffers", receive_chunks, 1, BUFFERS_MAX)?;
        within("send buffers", send_chunks, 0, BUFFERS_MAX / workers)?;
        within("buffers", self.chunks(), 1, BUFFERS_MAX)?;
        within("hand-overs", handovers, 1, HANDOVERS_MAX)?;
        Ok(self)
    }

    /// All buffers.
    pub fn chunks(&self) -> u32 {
        self.receive_chunks.saturating_add(self.send_chunks.saturating_mul(self.workers))
    }

    /// Bytes of the whole region.
    pub fn region_bytes(&self) -> usize {
        self.chunks_at() + self.chunks() as usize * self.chunk_bytes as usize
    }

    /// Where the buffers begin.
    pub(super) fn chunks_at(&self) -> usize {
        (self.ready_at(Towards::App) + self.ready_bytes()).next_multiple_of(PAGE)
    }

    /// Where the ready sets of the workers begin.
    fn ready_at(&self, towards: Towards) -> usize {
        let first = self.workers_at() + self.workers as usize * self.worker_bytes();
        match towards {
            Towards::Daemon => first,
            Towards::App => first + self.ready_bytes(),
        }
    }

    fn ready_bytes(&self) -> usize {
        LINE + ReadySet::bytes_within(self.workers)
    }

    fn workers_at(&self) -> usize {
        HANDOVERS_AT + self.handovers as usize * LINE
    }

    fn worker_bytes(&self) -> usize {
        WORKER_LINES * LINE + 2 * self.ring_slots as usize * 64
    }

    /// The first buffer of a worker's own.
    pub(super) fn first_send_chunk(&self, worker: u32) -> u32 {
        self.receive_chunks + worker * self.send_chunks
    }
}

/// Who is to look at a worker's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Towards {
    Daemon,
    App,
}

/// A size that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError {
    what: &'static str,
    value: u32,
    min: u32,
    max: u32,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, min, max } = self;
        write!(f, "{value} is no possible number of {what}: use {min} to {max}")
    }
}

impl std::error::Error for SizeError {}

/// A region together with its sizes: gives out addresses, all inside the mapping.
#[derive(Clone, Debug)]
pub(super) struct Map {
    pub(super) region: Arc<Region>,
    /// As they were checked; never read from the region again.
    pub(super) sizes: PacketSizes,
}

impl Map {
    /// `sizes` must be checked and the region at least as long as they need.
    pub(super) fn new(region: Arc<Region>, sizes: PacketSizes) -> Self {
        debug_assert!(region.len_bytes() >= sizes.region_bytes());
        Self { region, sizes }
    }

    fn word(&self, at: usize) -> NonNull<AtomicU32> {
        debug_assert!(at + 4 <= self.sizes.chunks_at());
        // SAFETY: every offset of the layout lies before the buffers, inside the mapping, and is
        // a multiple of 4.
        unsafe { self.region.base().add(at) }.cast()
    }

    /// Zero while attached.
    pub(super) fn state(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, and mapped as long as `self` borrows the region.
        unsafe { self.word(STATE_AT).as_ref() }
    }

    /// Not zero while the daemon sleeps.
    pub(super) fn daemon_doorbell(&self) -> &AtomicU32 {
        // SAFETY: as for `state`.
        unsafe { self.word(DOORBELL_AT).as_ref() }
    }

    /// A bit for each worker that has said something at its core grant.
    pub(super) fn core_grant_bits(&self) -> &AtomicU64 {
        // SAFETY: as for `state`.
        unsafe { self.word(CORE_GRANTS_AT).cast().as_ref() }
    }

    fn worker_at(&self, worker: u32) -> usize {
        self.sizes.workers_at() + worker as usize * self.sizes.worker_bytes()
    }

    /// Not zero while the worker sleeps.
    pub(super) fn worker_doorbell(&self, worker: u32) -> NonNull<AtomicU32> {
        self.word(self.worker_at(worker) + 4 * LINE)
    }

    /// The number, plus one, of the worker whose thread waits for this one as well; on the line of
    /// its doorbell, since who rings looks at both.
    pub(super) fn worker_watch(&self, worker: u32) -> NonNull<AtomicU32> {
        self.word(self.worker_at(worker) + 4 * LINE + 4)
    }

    /// The workers whose rings are to be looked at.
    pub(super) fn ready(&self, towards: Towards) -> ReadySet {
        let at = self.sizes.ready_at(towards);
        ReadySet::within(Arc::clone(&self.region), at, at + LINE, self.sizes.workers)
    }

    /// The ring from the daemon to a worker.
    pub(super) fn ring_to(&self, worker: u32) -> RingMemory {
        self.ring(self.worker_at(worker), 0)
    }

    /// The ring from a worker to the daemon.
    pub(super) fn ring_from(&self, worker: u32) -> RingMemory {
        self.ring(self.worker_at(worker), 1)
    }

    fn ring(&self, worker_at: usize, which: usize) -> RingMemory {
        let slots_at =
            worker_at + WORKER_LINES * LINE + which * self.sizes.ring_slots as usize * 64;
        RingMemory {
            head: self.word(worker_at + 2 * which * LINE),
            tail: self.word(worker_at + (2 * which + 1) * LINE),
            slots: self.word(slots_at).cast(),
            capacity: self.sizes.ring_slots,
        }
    }

    /// The first byte of a buffer.
    pub(super) fn chunk(&self, chunk: u32) -> NonNull<u8> {
        debug_assert!(chunk < self.sizes.chunks());
        // SAFETY: `chunk` is below their number, so the buffer lies inside the mapping.
        unsafe { self.region.base().add(self.chunk_at(chunk) as usize) }
    }

    /// Its region offset.
    pub(super) fn chunk_at(&self, chunk: u32) -> u32 {
        (self.sizes.chunks_at() + chunk as usize * self.sizes.chunk_bytes as usize) as u32
    }

    /// The buffer in which `len` bytes from region offset `offset` lie whole, if there is one.
    pub(super) fn chunk_of(&self, offset: u32, len: u32) -> Option<u32> {
        let inside = (offset as usize).checked_sub(self.sizes.chunks_at())? as u32;
        let chunk = inside / self.sizes.chunk_bytes;
        let end = u64::from(inside % self.sizes.chunk_bytes) + u64::from(len);
        (chunk < self.sizes.chunks() && end <= u64::from(self.sizes.chunk_bytes)).then_some(chunk)
    }

    /// Writes the sizes where the application finds them.
    pub(super) fn write_sizes(&self) {
        // SAFETY: inside the mapping, aligned, and nobody else has the fresh region yet.
        unsafe { self.region.base().add(SIZES_AT).cast().write(self.sizes) };
    }
}

/// Reads the sizes of a region that another process made.
pub(super) fn read_sizes(region: &Region) -> Option<PacketSizes> {
    if region.len_bytes() < HANDOVERS_AT {
        return None;
    }
    // SAFETY: inside the mapping and aligned; any bytes are a valid `PacketSizes`.
    Some(unsafe { region.base().add(SIZES_AT).cast::<PacketSizes>().read_volatile() })
}

/// A core grant that lies in a region.
#[derive(Clone, Debug)]
pub(crate) struct SharedCoreGrant {
    map: Map,
    worker: u32,
}

impl SharedCoreGrant {
    pub(super) fn new(map: Map, worker: u32) -> Self {
        debug_assert!(worker < map.sizes.workers);
        Self { map, worker }
    }

    #[inline]
    pub(crate) fn get(&self) -> &CoreGrantWords {
        const { assert!(size_of::<CoreGrantWords>() == 2 * LINE, "a core grant has two lines") };
        let words = self.map.word(self.map.worker_at(self.worker) + 5 * LINE).cast();
        // SAFETY: two lines of the worker lie there, aligned to 128 bytes and mapped as long as the
        // map lives; they are atomics, so both processes may write them.
        unsafe { words.as_ref() }
    }
}

/// Hand-over words that lie in a region.
#[derive(Clone, Debug)]
pub(crate) struct HandoverWords {
    map: Map,
}

impl HandoverWords {
    pub(super) fn new(map: Map) -> Self {
        Self { map }
    }

    pub(crate) fn get(&self) -> &[OwnLine<AtomicU32>] {
        let first = self.map.word(HANDOVERS_AT).cast();
        // SAFETY: that many words, each aligned to 128 bytes, lie there, mapped as long as the map
        // lives; they are atomics, so both processes may write them.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), self.map.sizes.handovers as usize) }
    }
}
