//! What one acknowledgement tells of segments on their way.

use base::Nanos;

use crate::Seq;

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    /// Segments newly known to have arrived.
    pub(crate) delivered: u32,
    /// Those of them acknowledged in order.
    pub(crate) acked: u32,
    /// Time since the oldest acknowledged one was sent, if it was sent once (RFC 6298 section 3).
    pub(crate) round_trip: Option<Nanos>,
    /// When the last was sent of those acknowledged that were lost or sent again: until then what
    /// is acknowledged may have waited for that, not for the network.
    pub(crate) again_at: Option<Nanos>,
    /// The peer had some of it twice (RFC 2883).
    pub(crate) duplicate: bool,
    /// Segments newly reported.
    pub(crate) reported: u32,
    /// Of what is newly known to have arrived, the lowest end of what was sent only once.
    pub(crate) original: Option<Seq>,
    /// Some of it was sent more than once.
    pub(crate) has_copies: bool,
}

impl Delivery {
    /// A segment has arrived that was not known to have, of which there was one copy or more.
    pub(super) fn note_copies(&mut self, end: Seq, has_copies: bool) {
        self.has_copies |= has_copies;
        if !has_copies {
            self.original = Some(self.original.map_or(end, |other| other.earlier(end)));
        }
    }
}
