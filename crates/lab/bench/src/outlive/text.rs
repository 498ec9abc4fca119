//! What a connection says: bytes that follow from its seed and their position, so that a wrong one
//! shows whether bytes were lost, doubled or changed.

use std::ops::Range;

use crate::flows::SplitMix;

/// A stretch of this many bytes is found again where it belongs; two of random bytes are never the
/// same.
const STRETCH: usize = 16;

/// So far from its place it is looked for: more than is ever under way.
const FAR: u64 = 1 << 20;

/// The bytes of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    seed: u64,
}

/// What is wrong with bytes that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// This many are missing in front of them.
    Lost(u64),
    /// This many of them had come before.
    Doubled(u64),
    /// They are none of this connection's.
    Changed,
}

impl Text {
    pub(super) fn new(seed: u64) -> Self {
        // Numbers that follow on each other would give texts that are each other's, a word apart.
        Self { seed: SplitMix(seed).next() }
    }

    fn byte(self, position: u64) -> u8 {
        let word = SplitMix(self.seed.wrapping_add(position / 8)).next();
        word.to_le_bytes()[(position % 8) as usize]
    }

    /// Fills `out` with the bytes from `position` on.
    pub(super) fn fill(self, position: u64, out: &mut [u8]) {
        let mut at = 0;
        while at < out.len() {
            let here = position + at as u64;
            let word = SplitMix(self.seed.wrapping_add(here / 8)).next().to_le_bytes();
            let word = &word[(here % 8) as usize..];
            let length = word.len().min(out.len() - at);
            out[at..at + length].copy_from_slice(&word[..length]);
            at += length;
        }
    }

    /// What is wrong with `bytes`, which have come where those from `position` on should have;
    /// nothing if they are right. `meant` is room for as many.
    pub(super) fn wrong(self, position: u64, bytes: &[u8], meant: &mut [u8]) -> Option<Wrong> {
        let meant = &mut meant[..bytes.len()];
        self.fill(position, meant);
        let first = bytes.iter().zip(&*meant).position(|(got, meant)| got != meant)?;
        let (place, rest) = (position + first as u64, &bytes[first..]);
        let rest = &rest[..rest.len().min(STRETCH)];
        if rest.len() < STRETCH {
            // Too short to be found anywhere with certainty.
            return Some(Wrong::Changed);
        }
        let found = |places: Range<u64>| {
            let is_there =
                |at: &u64| (0..).zip(rest).all(|(more, &byte)| self.byte(at + more) == byte);
            places.into_iter().find(is_there)
        };
        if let Some(at) = found(place + 1..place + FAR) {
            return Some(Wrong::Lost(at - place));
        }
        let before = found(place.saturating_sub(FAR)..place);
        Some(before.map_or(Wrong::Changed, |at| Wrong::Doubled(place - at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: Text, position: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        text.fill(position, &mut bytes);
        bytes
    }

    #[test]
    fn bytes_that_are_lost_doubled_or_changed_are_told_apart() {
        let text = Text::new(7);
        let whole = part(text, 0, 4000);
        let wrong = |at: u64, bytes: &[u8]| text.wrong(at, bytes, &mut vec![0; bytes.len()]);
        assert_eq!(wrong(3, &whole[3..]), None);
        assert_eq!(wrong(100, &whole[150..]), Some(Wrong::Lost(50)));
        assert_eq!(wrong(100, &whole[90..]), Some(Wrong::Doubled(10)));
        assert_eq!(wrong(100, &[&whole[100..200], &whole[300..]].concat()), Some(Wrong::Lost(100)));
        let mut changed = whole.clone();
        changed[1000] ^= 1;
        assert_eq!(wrong(0, &changed), Some(Wrong::Changed));
        assert_eq!(wrong(0, &part(Text::new(8), 0, 100)), Some(Wrong::Changed));
    }
}
