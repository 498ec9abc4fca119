//! Spinning over queues against asking a ready set, and queues of one's own against shared ones.
//!
//! What "You Can't Always Spin to Win" (SoCC 2019, slides 8 to 15) shows on hardware, as a model
//! with the costs that `calisto bench wait` has measured:
//! - [`one_core`]: a core that polls N queues in turn, or asks a ready set which of them has
//!   something: latency and peak throughput by N, traffic over all queues or one, and what the core
//!   does without finding anything, by load. Start with [`one_core::Plan`].
//! - [`many_cores`]: some cores with a queue each (scale-out) or one for all (scale-up), with
//!   hiccups; each by spinning and by a ready set. Start with [`many_cores::Plan`].

mod costs;
/// Some cores, with queues of their own or shared ones.
pub mod many_cores;
/// One core that serves many queues.
pub mod one_core;

pub use costs::{ByCache, FineRange, ScanCosts};

/// How a core learns which queue has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It looks at one after the other.
    Polling,
    /// It asks a ready set, which senders mark (QWAIT).
    ReadySet,
}

impl Waiting {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Polling, Self::ReadySet];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Polling => "polling",
            Self::ReadySet => "ready_set",
        }
    }
}
