//! What the regions of one user may lend out together: sockets, and bytes of rings.
//!
//! A user's programs have a region each, and local pairs with programs on the same host; the limits
//! are the user's. So the count is kept here, outside of all of them, and what a region still has
//! when it goes is given back for it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Two counts and their limits; shared by any number of regions and threads.
#[derive(Debug)]
pub struct Quota {
    slots: AtomicU32,
    slots_max: u32,
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Quota {
    /// `slots_max` sockets and `bytes_max` bytes of rings at once.
    pub fn new(slots_max: u32, bytes_max: u64) -> Self {
        let (slots, bytes) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { slots, slots_max, bytes, bytes_max }
    }

    /// Sockets that are lent.
    pub fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// Bytes of rings that are lent.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether so many bytes would be within the limit now.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bytes().saturating_add(bytes) <= self.bytes_max
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
}
