//! What a function of somebody else's is to a chain.

use std::any::Any;

use crate::Function;

/// A function that a chain runs without knowing it.
///
/// It is made by the control thread, for each slice one, and moves to the slice's thread.
pub trait Own: Function + Any + Send {
    /// Goes on where `before`, whose place it takes when the chain's file is read again, has come
    /// to: counters, and what else is to stay. `before` is of the same kind: whoever registered
    /// the kind knows which type that is, and [`Any`] gives it back. This is between two batches,
    /// so take what there is rather than copy it.
    fn take_over(&mut self, before: &mut dyn Any);

    /// Whether it makes packets, or changes who they come from: then a router behind it refuses
    /// before it what comes from an address of this host's.
    fn makes_packets(&self) -> bool {
        false
    }
}
