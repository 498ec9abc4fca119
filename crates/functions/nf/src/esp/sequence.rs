//! The numbers of packets that leave: each once, whoever takes it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the packets of one association, on all cores together.
///
/// A number that was given twice would be the end of GCM's secrecy, so that there is one counter,
/// however many slices share the tunnel, and it stops instead of beginning again.
#[derive(Debug)]
pub(crate) struct Sequence {
    taken: AtomicU64,
    last: u64,
}

impl Sequence {
    /// Nothing sent yet. Extended numbers have 64 bits (RFC 4303 section 2.2.1).
    pub(crate) const fn new(is_extended: bool) -> Self {
        // Far below the end, so that numbers taken and not used cannot carry the counter round.
        let last = if is_extended { u64::MAX >> 1 } else { u32::MAX as u64 };
        Self { taken: AtomicU64::new(0), last }
    }

    /// The next number, from 1 (RFC 4303 section 3.3.3); nothing when all are used.
    #[inline]
    pub(crate) fn take(&self) -> Option<u64> {
        // Relaxed: only that no two are the same matters.
        let number = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        (number <= self.last).then_some(number)
    }

    #[cfg(test)]
    pub(crate) fn skip_to(&self, taken: u64) {
        self.taken.store(taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_end_and_never_begin_again() {
        let sequence = Sequence::new(false);
        assert_eq!(sequence.take(), Some(1));
        sequence.skip_to(u64::from(u32::MAX) - 1);
        assert_eq!(sequence.take(), Some(u64::from(u32::MAX)));
        for _ in 0..100 {
            assert_eq!(sequence.take(), None);
        }
    }

    #[test]
    fn extended_numbers_go_on() {
        let sequence = Sequence::new(true);
        sequence.skip_to(u64::from(u32::MAX));
        assert_eq!(sequence.take(), Some(1 << 32));
    }
}
