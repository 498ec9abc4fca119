//! What all network functions have in common.

use std::sync::Arc;

use base::Nanos;
use shm::Batch;

use crate::Verdicts;

/// Takes a counter that was named when its function was made: name, what it counts, value.
pub type EachNamed<'a> = &'a mut dyn FnMut(&Arc<str>, &Arc<str>, u64);

/// Changes or judges packets, a batch at a time.
///
/// It decides about packets whose verdict is [`crate::Verdict::Next`] and leaves the others alone.
/// A packet that it lets pass to the next function keeps that verdict. After the last function
/// whoever runs the chain drops and counts what is still undecided.
pub trait Function {
    /// What it is called in configurations and in front of its counters.
    fn name(&self) -> &'static str;

    /// Decides about the batch. Never allocates, waits, reads a clock or panics, whatever the
    /// packets are; `now` does not go back from one call to the next.
    ///
    /// A frame may become another packet in place, such as an error message to whoever sent it.
    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos);

    /// Sees the packets that are to leave, each by the port of its verdict, once the last function
    /// has decided, and may change or drop them. As [`Self::process`].
    fn leave(&mut self, _batch: &mut Batch, _verdicts: &mut Verdicts, _now: Nanos) {}

    /// Hands each counter over: name, what it counts, value since the function was made.
    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64));

    /// Hands over counters that got their names when the function was made, such as one for each
    /// rule; as [`Self::counters`].
    fn named_counters(&self, _each: EachNamed<'_>) {}
}
