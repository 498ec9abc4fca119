//! Larger rings for a flow that has come to need them: an idle flow starts with small ones.

use piece::{Piece, ReadPiece};

use crate::Seq;
use crate::cold::Cold;
use crate::flow::Flow;

/// What has to be copied from a ring to the larger one that takes its place. A byte's place is its
/// number modulo the ring's length, so that bytes move.
#[must_use = "the new ring is nothing without the old one's bytes"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regrow {
    first: Seq,
    bytes: u32,
}

impl Regrow {
    /// Copies what the flow still needs of `old` to where it belongs in `new`. Both have the
    /// lengths that the engine was told; otherwise nothing is copied, and false returned.
    #[must_use]
    pub fn copy(&self, old: ReadPiece<'_>, new: Piece<'_>) -> bool {
        let fits = |ring: usize| ring.is_power_of_two() && self.bytes as usize <= ring;
        if !fits(old.len()) || !fits(new.len()) {
            return false;
        }
        let mut at = self.first;
        let mut left = self.bytes as usize;
        while left > 0 {
            let (from, to) = (at.0 as usize & (old.len() - 1), at.0 as usize & (new.len() - 1));
            let run = left.min(old.len() - from).min(new.len() - to);
            let (Some(from), Some(to)) = (old.get(from, run), new.get(to, run)) else {
                return false;
            };
            from.copy_to(to);
            at += run as u32;
            left -= run;
        }
        true
    }
}

/// Lets the receive ring grow; nothing when it has that size, or may not have it.
pub(crate) fn receive(flow: &Flow, cold: &mut Cold, log2: u8) -> Option<Regrow> {
    let options = &mut cold.options;
    if log2 <= options.receive_ring_log2 || log2 > options.receive_limit_log2 {
        return None;
    }
    options.receive_ring_log2 = log2;
    // Up to the promised edge there may be bytes that came before their turn.
    let edge = flow.rcv_adv.later(flow.rcv_nxt);
    // The peer's FIN has a number, but no byte: it may lie one behind a full ring.
    let edge = cold.fin.map_or(edge, |fin| fin.earlier(edge));
    Some(Regrow { first: flow.rcv_read, bytes: edge.since(flow.rcv_read) })
}

/// Lets the send ring grow; nothing when it has that size, or there can be no such ring.
pub(crate) fn send(flow: &Flow, cold: &mut Cold, log2: u8) -> Option<Regrow> {
    if log2 <= cold.options.send_ring_log2 || log2 > 30 {
        return None;
    }
    cold.options.send_ring_log2 = log2;
    let first = flow.snd_una.earlier(flow.snd_end);
    Some(Regrow { first, bytes: flow.snd_end.since(first) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_byte_is_where_its_number_says(
            first: u32,
            bytes in 0_u32..=256,
            old_log2 in 8_u32..12,
            more in 1_u32..5,
        ) {
            let mut old = vec![0; 1 << old_log2];
            let mut new = vec![0; 1 << (old_log2 + more)];
            let content = |number: u32| (number ^ (number >> 7)) as u8;
            let numbers = || (0..bytes).map(|at| first.wrapping_add(at));
            for number in numbers() {
                let at = number as usize % old.len();
                old[at] = content(number);
            }
            let regrow = Regrow { first: Seq(first), bytes };
            prop_assert!(regrow.copy(old[..].into(), Piece::from(&mut new[..])));
            for number in numbers() {
                prop_assert_eq!(new[number as usize % new.len()], content(number));
            }
        }
    }

    #[test]
    fn rings_of_other_lengths_are_left_alone() {
        let regrow = Regrow { first: Seq(0), bytes: 300 };
        let copy = |old: usize| {
            let mut new = [0; 512];
            regrow.copy(vec![0; old][..].into(), Piece::from(&mut new[..]))
        };
        assert!(!copy(256));
        assert!(!copy(500));
    }
}
