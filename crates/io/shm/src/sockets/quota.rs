//! What the regions of one user may lend out together: sockets, and bytes of rings.
//!
//! A user's programs have a region each, and local pairs with programs on the same host; the limits
//! are the user's. So the count is kept here, outside of all of them, and what a region still has
//! when it goes is given back for it.

use super::budget::Budget;
use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering};

/// Counts and their limits; shared by any number of regions and threads.
#[derive(Debug)]
pub struct Quota {
    slots: AtomicU32,
    slots_max: u32,
    bytes: AtomicU64,
    bytes_max: u64,
    /// Bytes of the user's rings that are in memory.
    resident: AtomicU64,
    resident_max: u64,
    budget: Arc<Budget>,
}

impl Quota {
    /// `slots_max` sockets and `bytes_max` bytes of rings at once.
    pub fn new(slots_max: u32, bytes_max: u64) -> Self {
        Self::within(slots_max, bytes_max, Arc::new(Budget::unlimited()), u64::MAX)
    }

    /// The same, of which `resident_max` bytes at most are in memory, and no more than `budget`
    /// has left.
    pub fn within(slots_max: u32, bytes_max: u64, budget: Arc<Budget>, resident_max: u64) -> Self {
        Self {
            slots: AtomicU32::new(0),
            slots_max,
            bytes: AtomicU64::new(0),
            bytes_max,
            resident: AtomicU64::new(0),
            resident_max,
            budget,
        }
    }

    /// Sockets that are lent.
    pub fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// Bytes of rings that are lent.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the user's rings that are in memory.
    pub fn resident_bytes(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    /// The most that may be, in bytes.
    pub fn resident_max(&self) -> u64 {
        self.resident_max
    }

    /// What all users may have in memory together.
    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether a ring of that length would be within the limits now.
    pub(super) fn has_room(&self, log2: u8) -> bool {
        let bytes = 1 << log2;
        let resident = self.resident.load(Ordering::Relaxed);
        self.bytes().saturating_add(bytes) <= self.bytes_max
            && resident.saturating_add(bytes) <= self.resident_max
            && self.budget.has_room(log2)
    }

    pub(super) fn take_slots(&self, count: u32) -> bool {
        let before = self.slots.fetch_add(count, Ordering::Relaxed);
        let fits = before.saturating_add(count) <= self.slots_max;
        if !fits {
            self.give_back_slots(count);
        }
        fits
    }

    pub(super) fn give_back_slots(&self, count: u32) {
        self.slots.fetch_sub(count, Ordering::Relaxed);
    }

    pub(super) fn take_bytes(&self, bytes: u64) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.bytes_max;
        if !fits {
            self.give_back_bytes(bytes);
        }
        fits
    }

    pub(super) fn give_back_bytes(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Memory of a ring is about to be touched for the first time.
    pub(super) fn take_resident(&self, log2: u8) -> bool {
        let bytes = 1 << log2;
        let before = self.resident.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.resident_max;
        if !fits {
            self.budget.count_refused();
        }
        if !fits || !self.budget.take(log2) {
            self.resident.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Takes bytes off what is resident.
    pub(super) fn give_back_resident(&self, bytes: u64) {
        self.resident.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.give_back(bytes);
    }
}
