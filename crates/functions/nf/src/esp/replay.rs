//! Which packets of an association have come already: the window of RFC 4303 section 3.4.3.
//!
//! As in RFC 6479 the window is a ring of blocks of bits that is never shifted. Here each word of
//! the ring carries the number of its block beside the bits, so that a block is taken over in the
//! same write that sets its first bit: nothing is cleared in between, and any number of cores may
//! share a window, each packet accepted once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Packets of one association that were accepted.
#[derive(Debug)]
pub(crate) struct Replay {
    /// Low half: a bit for each packet of a block; high half: the block's number, its low 32 bits.
    words: Box<[AtomicU64]>,
    /// The largest number accepted.
    top: AtomicU64,
    /// Every number less than this below `top` can be told from a repeated one.
    window: u64,
    is_extended: bool,
}

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// It has come already.
    Replayed,
    /// It is so far behind that nobody knows.
    TooOld,
}

/// Packets of a block.
const BLOCK: u64 = 32;

/// The smallest window (RFC 4303 section 3.4.3: at least 32, better 64).
pub const WINDOW_MIN: u32 = 64;
/// The largest: a tenth of a second at ten million packets a second.
pub const WINDOW_MAX: u32 = 1 << 20;

impl Replay {
    /// Nothing has come; `window` lies between [`WINDOW_MIN`] and [`WINDOW_MAX`].
    pub(crate) fn new(window: u32, is_extended: bool) -> Self {
        // One block more than the window, because its oldest block is in it only partly.
        let blocks = (u64::from(window).div_ceil(BLOCK) + 1).next_power_of_two();
        Self {
            words: (0..blocks).map(|_| AtomicU64::new(0)).collect(),
            top: AtomicU64::new(0),
            window: (blocks - 1) * BLOCK,
            is_extended,
        }
    }

    /// The whole number of a packet that carries its low 32 bits (RFC 4303, appendix A2.2): the one
    /// nearest to the window.
    #[inline]
    pub(crate) fn whole(&self, low: u32) -> u64 {
        if !self.is_extended {
            return u64::from(low);
        }
        let top = self.top.load(Ordering::Relaxed);
        // Above the window's lower edge, and less than 2^32 above it.
        let edge = top.saturating_sub(self.window - 1);
        edge + u64::from(low.wrapping_sub(edge as u32))
    }

    /// Whether a packet of that number may still be accepted: asked before it is verified, so that
    /// replays cost no decryption.
    #[inline]
    pub(crate) fn check(&self, number: u64) -> Result<(), Stale> {
        let word = self.word(number).load(Ordering::Relaxed);
        self.decide(word, number).map(drop)
    }

    /// Accepts a packet that was verified; of two with one number only one is, on whatever cores.
    #[inline]
    pub(crate) fn accept(&self, number: u64) -> Result<(), Stale> {
        let word = self.word(number);
        // Relaxed: a word stands for itself, and no other memory hangs on it. The loop goes round
        // only when another core has accepted a packet of the same block meanwhile.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let next = self.decide(seen, number)?;
            match word.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        if number > self.top.load(Ordering::Relaxed) {
            self.top.fetch_max(number, Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn word(&self, number: u64) -> &AtomicU64 {
        let at = (number / BLOCK) as usize & (self.words.len() - 1);
        &self.words[at]
    }

    /// The word with the packet's bit set.
    #[inline]
    fn decide(&self, word: u64, number: u64) -> Result<u64, Stale> {
        let top = self.top.load(Ordering::Relaxed);
        // Numbers begin with 1.
        if number == 0 || number + self.window <= top {
            return Err(Stale::TooOld);
        }
        let block = (number / BLOCK) as u32;
        let bit = 1 << (number % BLOCK);
        let held = (word >> 32) as u32;
        if held == block {
            return if word & bit != 0 { Err(Stale::Replayed) } else { Ok(word | bit) };
        }
        // Another core may have gone on by a whole ring meanwhile.
        if block.wrapping_sub(held) > u32::MAX / 2 {
            return Err(Stale::TooOld);
        }
        Ok(u64::from(block) << 32 | bit)
    }
}

#[cfg(test)]
mod tests;
