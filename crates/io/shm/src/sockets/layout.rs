//! Where everything lies in a region of sockets.
//!
//! ```text
//! 0       region header (magic, version, kind, features)
//! 64      sizes, written once by the daemon
//! 128     state: 0 while attached, then the reason's number (the daemon writes)
//! 256     counts of fallbacks by reason, 64 of them (the application writes)
//! 1024    addresses of the host, 64 of them (the daemon writes)
//! 2560    paths that take shorter packets than others, 64 of them (the daemon writes)
//! page    for each side of a local pair (an application's own region has one): its pollers, each a line
//!         with "armed", then the top words and the words of bits of its ready bits
//! ...     for each worker of the daemon: the same; a worker is armed while it sleeps
//! page    slots, 640 bytes each
//! page    the heap: for each size class of rings as many bytes as all may have together
//! ```

use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use base::SlotId;
use piece::Piece;

use super::host_addresses::HostAddresses;
use super::narrow_paths::NarrowPaths;
use super::ready_bits::ReadyBits;
use super::ring::RingDesc;
use super::slot::SlotWords;
use crate::region::{MapError, Region, RegionError, RegionKind};

/// Sockets of a region, at most.
pub const SLOTS_MAX: u32 = 1 << 16;

/// Pollers of one side, at most.
pub const POLLERS_MAX: u32 = 256;

/// Workers of the daemon, at most.
pub const WORKERS_MAX: u32 = 64;

/// Lengths of rings that the heap lends, as base-2 logarithms.
pub(super) const CLASSES: [u8; 7] = [10, 12, 14, 16, 18, 20, 22];

/// Reasons that fallbacks are counted by, at most.
const REASONS: usize = 64;

const LINE: usize = 64;
const PAGE: usize = 4096;
const SIZES_AT: usize = 64;
const STATE_AT: usize = 128;
const REASONS_AT: usize = 256;
const HOST_ADDRESSES_AT: usize = 1024;
const SERVED_ADDRESSES_AT: usize = 2048;
const ADDRESSES_VERSION_AT: usize = SERVED_ADDRESSES_AT + 8;
const NARROW_PATHS_AT: usize = 2560;
const POLLERS_AT: usize = PAGE;

/// A side of a local pair: who opened its connections (zero), or who accepted them (one). An
/// application's own region has side zero only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Of an application's own region; of a local pair who connects.
    Zero,
    /// Who accepts.
    One,
}

/// What a region is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SocketSizes {
    /// Sockets: 2 to [`SLOTS_MAX`].
    pub slots: u32,
    /// Pollers of each side: 1 to [`POLLERS_MAX`].
    pub pollers: u32,
    /// 1, or 2 in a local pair.
    pub sides: u32,
    /// Workers of the daemon that serve it: 0 in a local pair, to [`WORKERS_MAX`].
    pub workers: u32,
    /// Bytes of all rings, at most: 64 KiB to 64 GiB.
    pub ring_bytes: u64,
}

impl SocketSizes {
    /// Whether a region can be made for them.
    pub fn is_possible(&self) -> bool {
        (2..=SLOTS_MAX).contains(&self.slots)
            && (1..=POLLERS_MAX).contains(&self.pollers)
            && (1..=2).contains(&self.sides)
            && self.workers <= WORKERS_MAX
            && (1 << 16..=1 << 36).contains(&self.ring_bytes)
    }

    /// Bytes of each size class's part of the heap: enough for one of the longest.
    pub(super) fn class_bytes(&self) -> u64 {
        self.ring_bytes.next_multiple_of(1 << CLASSES[CLASSES.len() - 1])
    }

    fn leaf_words(&self) -> usize {
        self.slots.div_ceil(64) as usize
    }

    fn top_words(&self) -> usize {
        self.leaf_words().div_ceil(64)
    }

    fn ready_bits_bytes(&self) -> usize {
        LINE + (self.top_words() * 8).next_multiple_of(LINE)
            + (self.leaf_words() * 8).next_multiple_of(LINE)
    }

    fn ready_bits_at(&self, number: usize) -> usize {
        POLLERS_AT + number * self.ready_bits_bytes()
    }

    fn slots_at(&self) -> usize {
        let all = self.sides as usize * self.pollers as usize + self.workers as usize;
        self.ready_bits_at(all).next_multiple_of(PAGE)
    }

    fn heap_at(&self) -> usize {
        (self.slots_at() + self.slots as usize * size_of::<SlotWords>()).next_multiple_of(PAGE)
    }

    fn heap_bytes(&self) -> u64 {
        self.class_bytes() * CLASSES.len() as u64
    }

    fn region_bytes(&self) -> u64 {
        self.heap_at() as u64 + self.heap_bytes()
    }
}

/// A mapped region of sockets: gives out addresses, all inside the mapping.
#[derive(Clone)]
pub struct SocketMemory {
    region: Arc<Region>,
    /// As they were checked; never read from the region again.
    sizes: SocketSizes,
    /// What follows from them, and every call needs.
    places: SlotPlaces,
}

/// Where the parts lie that every call touches.
#[derive(Clone, Copy)]
struct SlotPlaces {
    slots_at: usize,
    heap_at: usize,
    heap_bytes: u64,
}

impl SlotPlaces {
    fn of(sizes: &SocketSizes) -> Self {
        Self {
            slots_at: sizes.slots_at(),
            heap_at: sizes.heap_at(),
            heap_bytes: sizes.heap_bytes(),
        }
    }
}

impl SocketMemory {
    /// Makes a region of `sizes`, which must be possible.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn create(name: &str, sizes: SocketSizes) -> Result<Self, RegionError> {
        let bytes = usize::try_from(sizes.region_bytes()).unwrap_or(usize::MAX);
        let region = Region::create(name, RegionKind::Stream, 0, bytes)?;
        // SAFETY: inside the mapping, aligned, and nobody else has the fresh region yet.
        unsafe { region.base().add(SIZES_AT).cast().write(sizes) };
        Ok(Self { region: Arc::new(region), sizes, places: SlotPlaces::of(&sizes) })
    }

    /// Maps the region that the daemon sent.
    ///
    /// # Errors
    /// It is no region of this kind and version, or not the size that it says.
    pub fn open(file: OwnedFd) -> Result<Self, MapError> {
        let region = Region::map(file, RegionKind::Stream)?;
        if region.len_bytes() < POLLERS_AT {
            return Err(MapError::Sizes);
        }
        // SAFETY: inside the mapping and aligned; any bytes are valid sizes.
        let sizes = unsafe { region.base().add(SIZES_AT).cast::<SocketSizes>().read_volatile() };
        if !sizes.is_possible() || sizes.region_bytes() > region.len_bytes() as u64 {
            return Err(MapError::Sizes);
        }
        Ok(Self { region: Arc::new(region), sizes, places: SlotPlaces::of(&sizes) })
    }

    /// What it was made for.
    pub fn sizes(&self) -> &SocketSizes {
        &self.sizes
    }

    /// The memfd, of whoever made the region.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.region.as_fd()
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        debug_assert!(offset + size_of::<T>() <= self.region.len_bytes());
        debug_assert!(offset.is_multiple_of(align_of::<T>()));
        // SAFETY: every offset of the layout lies inside the mapping.
        unsafe { self.region.base().add(offset) }.cast()
    }

    /// Zero while attached, then the number of the reason.
    pub fn state(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, and mapped as long as `self` is borrowed.
        unsafe { self.at(STATE_AT).as_ref() }
    }

    /// How often sockets were left to the kernel, by the reason's number.
    pub fn fallbacks(&self, reason: usize) -> Option<&AtomicU64> {
        // SAFETY: as for `state`.
        (reason < REASONS).then(|| unsafe { self.at(REASONS_AT + 8 * reason).as_ref() })
    }

    fn host_addresses(&self) -> HostAddresses<'_> {
        // SAFETY: as for `state`; 1 KiB of words and two more, which end before the pollers.
        let (words, served, version) = unsafe {
            (
                self.at(HOST_ADDRESSES_AT).as_ref(),
                self.at(SERVED_ADDRESSES_AT).as_ref(),
                self.at(ADDRESSES_VERSION_AT).as_ref(),
            )
        };
        HostAddresses { words, served, version }
    }

    /// Tells the application the addresses of its host, and which of them are of interfaces that
    /// the daemon serves.
    pub fn set_host_addresses(&self, addresses: &[IpAddr], served: &[IpAddr]) {
        self.host_addresses().set(addresses, served);
    }

    /// Whether that address is of an interface which the daemon serves, and was so when it had
    /// told its addresses for the `version`th time ([`Self::addresses_version`]).
    pub fn is_served_since(&self, version: u32, address: IpAddr) -> bool {
        self.host_addresses().serve_since(version, address)
    }

    /// How often the daemon has told other addresses than before.
    pub fn addresses_version(&self) -> u32 {
        self.host_addresses().version.load(Ordering::Relaxed)
    }

    /// Whether the host has that address, as the daemon has told.
    pub fn is_host_address(&self, address: IpAddr) -> bool {
        self.host_addresses().contain(address)
    }

    fn narrow_paths(&self) -> NarrowPaths<'_> {
        // SAFETY: as for `state`; 512 bytes of words, which end before the pollers.
        NarrowPaths(unsafe { self.at(NARROW_PATHS_AT).as_ref() })
    }

    /// Tells the application that packets to `remote` have at most `mtu` bytes, as a router has
    /// said now, by CLOCK_MONOTONIC in seconds.
    pub fn learn_path_mtu(&self, remote: IpAddr, mtu: u16, now_seconds: u64) {
        self.narrow_paths().learn(remote, mtu, now_seconds);
    }

    /// Bytes of the longest packet to `remote`, if a router has said so in the last ten minutes.
    #[inline]
    pub fn path_mtu(&self, remote: IpAddr, now_seconds: impl FnOnce() -> u64) -> Option<u16> {
        self.narrow_paths().mtu(remote, now_seconds)
    }

    fn ready_bits(&self, number: usize) -> ReadyBits<'_> {
        let at = self.sizes.ready_bits_at(number);
        let top_at = at + LINE;
        let leaf_at = top_at + (self.sizes.top_words() * 8).next_multiple_of(LINE);
        let words = |at, count| {
            // SAFETY: that many words lie there, aligned and mapped as long as `self` is borrowed;
            // they are atomics, so that both processes may write them.
            unsafe { std::slice::from_raw_parts(self.at::<AtomicU64>(at).as_ptr(), count) }
        };
        ReadyBits {
            // SAFETY: as for `state`.
            armed: unsafe { self.at(at).as_ref() },
            top: words(top_at, self.sizes.top_words()),
            leaf: words(leaf_at, self.sizes.leaf_words()),
        }
    }

    /// The ready bits that a poller of the application hears; nothing when there is no such poller.
    pub fn poller(&self, side: Side, poller: u32) -> Option<ReadyBits<'_>> {
        let is_there = poller < self.sizes.pollers && (side as u32) < self.sizes.sides;
        is_there.then(|| self.ready_bits((side as u32 * self.sizes.pollers + poller) as usize))
    }

    /// The ready bits that a worker of the daemon looks at; nothing when there is no such worker.
    pub fn worker(&self, worker: u32) -> Option<ReadyBits<'_>> {
        let pollers = self.sizes.sides * self.sizes.pollers;
        (worker < self.sizes.workers).then(|| self.ready_bits((pollers + worker) as usize))
    }

    /// The words of a socket; nothing when there is no such slot.
    #[inline]
    pub fn slot(&self, slot: SlotId) -> Option<&SlotWords> {
        if slot.0 >= self.sizes.slots {
            return None;
        }
        let at = self.places.slots_at + slot.index() * size_of::<SlotWords>();
        // SAFETY: as for `state`; all words are atomics.
        Some(unsafe { self.at(at).as_ref() })
    }

    /// Whether a ring lies inside the heap.
    #[inline]
    fn holds(&self, desc: RingDesc) -> bool {
        desc.log2().is_some_and(|log2| {
            desc.offset().is_multiple_of(1 << LOG2_ALIGN.min(log2))
                && desc.offset() + desc.bytes() <= self.places.heap_bytes
        })
    }

    /// The first byte of a ring that lies inside the heap.
    pub(super) fn heap_start(&self, desc: RingDesc) -> NonNull<u8> {
        debug_assert!(self.holds(desc));
        self.at(self.places.heap_at + desc.offset() as usize)
    }

    /// Gives the pages of a ring back to the system; false when that is not possible.
    pub(super) fn discard(&self, desc: RingDesc) -> bool {
        let offset = self.places.heap_at as u64 + desc.offset();
        self.holds(desc) && self.region.discard(offset, desc.bytes())
    }

    /// The stretch of `bytes` bytes of a ring from `index` (taken modulo its length) on, in two
    /// pieces of which the second may be empty; nothing when there is no such ring or it is
    /// shorter.
    #[inline]
    pub fn pieces(&self, desc: RingDesc, index: u64, bytes: usize) -> Option<[Piece<'_>; 2]> {
        if !self.holds(desc) || bytes as u64 > desc.bytes() {
            return None;
        }
        let start = self.heap_start(desc);
        let at = (index & (desc.bytes() - 1)) as usize;
        let first = bytes.min(desc.bytes() as usize - at);
        // SAFETY: both lie inside the ring, which lies inside the heap.
        Some(unsafe { [Piece::new(start.add(at), first), Piece::new(start, bytes - first)] })
    }

    /// The entries of a ring that is used as an array of words.
    pub(super) fn entries(&self, desc: RingDesc) -> Option<&[AtomicU64]> {
        if !self.holds(desc) {
            return None;
        }
        let count = desc.bytes() as usize / 8;
        // SAFETY: inside the heap, aligned as `holds` has seen, mapped as long as `self` is
        // borrowed; atomics, so that both processes may write them.
        Some(unsafe { std::slice::from_raw_parts(self.heap_start(desc).cast().as_ptr(), count) })
    }

    /// Says that it is over, and why; once.
    pub fn end(&self, reason: u32) {
        let _ = self.state().compare_exchange(0, reason, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Rings begin at multiples of their length, or of this.
const LOG2_ALIGN: u8 = 10;

impl fmt::Debug for SocketMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sizes.fmt(f)
    }
}
