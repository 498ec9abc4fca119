//! What travels between the dispatcher and a worker, each way through one ring.

pub use shm::Moving;
use shm::{Frame, Ticket};

/// Dispatcher to worker, in the order in which it must take effect.
#[derive(Debug)]
pub enum ToWorker {
    /// A packet of a group that the worker owns; or, without a byte in it, an empty frame, as asked
    /// for by [`FromWorker::Wants`] (a variant of its own would make every message longer than a
    /// line).
    Packet(Frame),
    /// Everything before this belongs to the old order: complete it, then give up what `moving`
    /// names, unless the hand-over was aborted meanwhile.
    Barrier {
        /// The hand-over.
        ticket: Ticket,
        /// What leaves.
        moving: Moving,
    },
    /// From here on the worker owns what `Moving` names.
    Attach(Moving),
    /// Nothing follows.
    Retire,
}

/// Worker to dispatcher.
#[derive(Debug)]
pub enum FromWorker {
    /// A packet that is done with; its meta says whether it is to be sent, and by which port.
    Packet(Frame),
    /// The worker has detached what the ticket's hand-over moves, and everything that it still
    /// had to send for it stands before this message.
    Passed(Ticket),
    /// The worker has more to send than it has received: it asks for this many empty frames.
    Wants(u16),
    /// The worker has met [`ToWorker::Retire`]: this is its last message.
    Retired,
}

const _: () = assert!(size_of::<ToWorker>() <= 64, "a ring slot is one cache line");
const _: () = assert!(size_of::<FromWorker>() <= 64, "a ring slot is one cache line");
