//! Other functions for a running slice: made by the control thread, put in force by the slice's
//! thread between two batches, and sent back as what they took the place of.

use shm::{Consumer, Producer, ring};

use crate::stage::Stage;

/// On their way to a thread, or back, at most.
const SWAPS: usize = 2;

/// All functions of a slice, in order.
pub(crate) struct Swap {
    pub(crate) stages: Vec<Stage>,
    /// For each of them what it comes after.
    pub(crate) from: Vec<Origin>,
}

/// What a function comes after. Places are those before the swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// There was none like it.
    New,
    /// It is the one that was in that place, unchanged: what the swap holds is a stand-in.
    Same(usize),
    /// It takes the place of that one, and goes on where that one has come to.
    After(usize),
}

impl Swap {
    /// Puts the functions in force and takes out those that were.
    pub(crate) fn exchange(&mut self, running: &mut Vec<Stage>) {
        for (stage, from) in self.stages.iter_mut().zip(&self.from) {
            match *from {
                Origin::New => {}
                Origin::Same(place) => {
                    if let Some(old) = running.get_mut(place) {
                        std::mem::swap(stage, old);
                    }
                }
                Origin::After(place) => {
                    if let Some(old) = running.get_mut(place) {
                        stage.take_over(old);
                    }
                }
            }
        }
        std::mem::swap(&mut self.stages, running);
    }
}

/// The control thread's ends.
pub(crate) struct Swapper {
    pub(crate) to: Producer<Swap>,
    pub(crate) back: Consumer<Swap>,
}

/// The ends of a slice's thread.
pub(crate) struct Swapped {
    pub(crate) taken: Consumer<Swap>,
    pub(crate) back: Producer<Swap>,
}

pub(crate) fn swapper() -> (Swapper, Swapped) {
    let (to, taken) = ring(SWAPS);
    let (back, spent) = ring(SWAPS);
    (Swapper { to, back: spent }, Swapped { taken, back })
}
