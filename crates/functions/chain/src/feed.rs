//! The way of changes from the control thread to a slice's thread: a bounded ring, and a wake-up.

use calisto_nf::FibChange;
use calisto_slice::Waker;
use shm::{Consumer, Producer, ring};
use std::time::Duration;

/// Steps that wait for a slice's thread at most: two megabytes of them.
const STEPS: usize = 1 << 15;

/// A thread that takes no steps is looked at again after this.
const PAUSE: Duration = Duration::from_micros(50);

/// The control thread's end.
pub(crate) struct Feed {
    steps: Producer<FibChange>,
    waker: Waker,
}

/// A feed of the slice whose waker that is, and the end for its thread.
pub(crate) fn feed(waker: Waker) -> (Feed, Consumer<FibChange>) {
    let (steps, taken) = ring(STEPS);
    (Feed { steps, waker }, taken)
}

impl Feed {
    /// Passes all of `steps` on, in order; waits for room as long as `goes_on` says. False: it gave
    /// up.
    pub(crate) fn send(&mut self, steps: &[FibChange], goes_on: impl Fn() -> bool) -> bool {
        for step in steps {
            let mut step = *step;
            while let Err(back) = self.steps.stage(step) {
                step = back;
                self.push();
                if !goes_on() {
                    return false;
                }
                std::thread::sleep(PAUSE);
            }
        }
        self.push();
        true
    }

    /// Ends the thread's wait, if it waits.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    fn push(&mut self) {
        if self.steps.publish() {
            self.waker.wake();
        }
    }
}
