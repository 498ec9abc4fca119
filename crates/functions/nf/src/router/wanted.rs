//! Neighbours that somebody must ask for: the function itself cannot.

use std::net::IpAddr;

use arrayvec::ArrayVec;
use base::PortId;

/// A neighbour whose link address a packet wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// On the link of this port.
    pub port: PortId,
    /// Whose link address.
    pub address: IpAddr,
}

/// Those of one time, each once.
#[derive(Debug, Default)]
pub(super) struct WantedList {
    list: ArrayVec<Wanted, { Self::MAX }>,
}

impl WantedList {
    /// Whoever scans a link asks for more; what is asked for slower than it comes is counted.
    pub(super) const MAX: usize = 64;

    /// Notes one; false when there is no room.
    #[inline]
    pub(super) fn push(&mut self, wanted: Wanted) -> bool {
        self.list.contains(&wanted) || self.list.try_push(wanted).is_ok()
    }

    /// Hands over and forgets all.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Wanted> {
        self.list.drain(..)
    }
}
