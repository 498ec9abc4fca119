//! What all regions of a daemon may have in memory together, whatever each user's limit says.
//!
//! Limits of users say what each may have lent; the sum of them can be more than there is. Pages
//! that a ring has touched stay after it is given back, so what counts here is what was touched
//! and not discarded since.

use crate::sync::{AtomicU64, Ordering};

/// A ring up to this length (base-2 logarithm of bytes) may take the last quarter of a budget: a
/// connection begins with no more. What is longer has grown, or is for datagrams, and can do
/// without.
const SMALL_LOG2: u8 = 16;

/// Bytes of rings in memory, and their limit; shared by any number of regions and threads.
#[derive(Debug)]
pub struct Budget {
    bytes: AtomicU64,
    bytes_max: u64,
    refused: AtomicU64,
}

impl Budget {
    /// At most `bytes_max` bytes of rings in memory at once.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes: AtomicU64::new(0), bytes_max, refused: AtomicU64::new(0) }
    }

    /// Without a limit.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Bytes of rings that are in memory, as far as the daemon can tell.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The limit, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Rings that were not lent because of the limit, since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A part of the limit in bytes: `numerator` of `denominator`.
    pub fn part(&self, numerator: u64, denominator: u64) -> u64 {
        self.bytes_max / denominator * numerator
    }

    /// What rings of that length may take together with all others.
    fn limit_of(&self, log2: u8) -> u64 {
        if log2 <= SMALL_LOG2 { self.bytes_max } else { self.part(3, 4) }
    }

    /// Whether a ring of that length would be within the limit now.
    pub(super) fn has_room(&self, log2: u8) -> bool {
        self.bytes().saturating_add(1 << log2) <= self.limit_of(log2)
    }

    pub(super) fn take(&self, log2: u8) -> bool {
        let bytes = 1 << log2;
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit_of(log2);
        if !fits {
            self.give_back(bytes);
            self.count_refused();
        }
        fits
    }

    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
