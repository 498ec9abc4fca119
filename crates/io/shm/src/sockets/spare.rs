//! How much memory a heap keeps for rings that nobody has now.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

/// Time between two looks at how much is lent.
pub const SPARE_LOOK_EVERY: Nanos = Nanos::from_millis(200);

/// A heap keeps that much however little is lent: what comes and goes in a busy application's turn
/// has its pages.
const KEPT_MIN: u64 = 8 << 20;

/// What was lent counts for half after about as many looks (10 s): memory follows a load that comes
/// and goes within seconds slowly, and one that is over surely.
const HALVED_WITHIN_LOOKS: u64 = 50;

/// The most that was lent lately.
#[derive(Debug)]
pub(super) struct Spare {
    lent_lately: AtomicU64,
}

impl Spare {
    pub(super) fn new() -> Self {
        Self { lent_lately: AtomicU64::new(0) }
    }

    /// How many bytes of rings are to stay in memory, when `lent` of them are lent at this look:
    /// twice what was lent lately, because a ring is lent and given back between two looks.
    pub(super) fn look(&self, lent: u64) -> u64 {
        let lately = faded(self.lent_lately.load(Ordering::Relaxed)).max(lent);
        self.lent_lately.store(lately, Ordering::Relaxed);
        lately.saturating_mul(2).max(KEPT_MIN)
    }
}

/// What is left of a number of bytes after one more look.
fn faded(bytes: u64) -> u64 {
    // 1 - ln(2) / looks; rounded down, so that it ends at zero.
    let parts = HALVED_WITHIN_LOOKS * 1_000_000 / 693_147;
    bytes.saturating_sub(bytes.div_ceil(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lent_is_kept_twice_and_forgotten_by_halves() {
        let spare = Spare::new();
        assert_eq!(spare.look(0), KEPT_MIN);
        assert_eq!(spare.look(600 << 20), 1200 << 20);
        let kept: Vec<u64> = (0..HALVED_WITHIN_LOOKS * 10).map(|_| spare.look(1 << 20)).collect();
        assert!(kept.is_sorted_by(|before, after| before >= after));
        let half = kept[HALVED_WITHIN_LOOKS as usize - 1] >> 20;
        assert!(
            (590..=610).contains(&half),
            "half of it after {HALVED_WITHIN_LOOKS} looks: {half} MiB"
        );
        assert_eq!(kept.last(), Some(&KEPT_MIN));
        assert_eq!(spare.look(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_last_byte_is_forgotten_too() {
        assert_eq!((faded(1), faded(0)), (0, 0));
    }
}
