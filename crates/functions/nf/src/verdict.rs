//! What is to become of each packet of a batch.

use std::ops::{Index, IndexMut};

use base::{BURST, PortId};
use shm::{Batch, Frame};

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The next function decides.
    #[default]
    Next,
    /// It leaves by this port.
    Out(PortId),
    /// It goes no further; whoever said so has counted the reason.
    Drop,
}

/// A verdict for each packet of a batch, under the packet's index there.
#[derive(Clone, Debug)]
pub struct Verdicts {
    verdicts: [Verdict; BURST],
}

impl Verdicts {
    /// Nothing decided: as it is at the start of a chain.
    pub const fn new() -> Self {
        Self { verdicts: [Verdict::Next; BURST] }
    }

    /// Makes everything undecided again, for the next batch.
    pub fn reset(&mut self) {
        *self = Self::new();
    }

    /// The packets of `batch` that nobody has decided about, each with its index and its verdict.
    #[inline]
    pub fn undecided<'a>(
        &'a mut self,
        batch: &'a mut Batch,
    ) -> impl Iterator<Item = (usize, &'a mut Frame, &'a mut Verdict)> {
        batch
            .iter_mut()
            .zip(&mut self.verdicts)
            .enumerate()
            .filter(|(_, (_, verdict))| **verdict == Verdict::Next)
            .map(|(index, (frame, verdict))| (index, frame, verdict))
    }

    /// The packets of `batch` that are to leave, each with its verdict and the port there.
    #[inline]
    pub fn leaving<'a>(
        &'a mut self,
        batch: &'a mut Batch,
    ) -> impl Iterator<Item = (&'a mut Frame, &'a mut Verdict, PortId)> {
        batch.iter_mut().zip(&mut self.verdicts).filter_map(|(frame, verdict)| match *verdict {
            Verdict::Out(port) => Some((frame, verdict, port)),
            Verdict::Next | Verdict::Drop => None,
        })
    }

    /// The verdicts on the first `packets` of the batch.
    pub fn of(&self, packets: usize) -> &[Verdict] {
        self.verdicts.get(..packets).unwrap_or(&self.verdicts)
    }
}

impl Default for Verdicts {
    fn default() -> Self {
        Self::new()
    }
}

/// By the packet's index in the batch, which is below [`BURST`].
impl Index<usize> for Verdicts {
    type Output = Verdict;
    #[inline]
    fn index(&self, index: usize) -> &Verdict {
        &self.verdicts[index]
    }
}

impl IndexMut<usize> for Verdicts {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Verdict {
        &mut self.verdicts[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Frames;

    #[test]
    fn only_undecided_packets_are_shown_and_a_reset_shows_all_again() {
        let mut frames = Frames::new();
        let mut batch = frames.batch(&[&[0; 60], &[1; 60], &[2; 60], &[3; 60]]);
        let mut verdicts = Verdicts::new();
        verdicts[1] = Verdict::Drop;
        verdicts[3] = Verdict::Out(PortId(7));
        let seen: Vec<_> =
            verdicts.undecided(&mut batch).map(|(i, frame, _)| (i, frame.bytes()[0])).collect();
        assert_eq!(seen, [(0, 0), (2, 2)]);
        assert_eq!(verdicts.of(2), [Verdict::Next, Verdict::Drop]);
        verdicts.reset();
        assert_eq!(verdicts.undecided(&mut batch).count(), 4);
        frames.give(batch);
    }
}
