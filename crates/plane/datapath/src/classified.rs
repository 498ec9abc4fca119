//! What classification says of a frame.

use wire::{FlowKey, Malformed, NotOurs};

use crate::app::AttachmentId;

/// What a frame of the batch in hand is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Classified {
    /// A packet for somebody here.
    Flow(FlowKey, AttachmentId),
    /// Of a flow, and nobody here listens for it.
    NotListening,
    /// For somebody here, and damaged.
    BadChecksum,
    /// Somebody else's.
    NotOurs(NotOurs),
    /// To the link address of another host, whatever is in it.
    ForAnotherHost,
    /// No packet at all.
    Malformed(Malformed),
}
