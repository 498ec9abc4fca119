//! Connections and datagrams that wait for the link address of their next hop.

use std::net::{IpAddr, SocketAddr};

use base::Nanos;
use tcp::FlowOptions;

use super::guards::SocketKey;
use super::routes::Hop;

/// Everything that waits for a link address.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) connects: Vec<Pending>,
    pub(super) datagrams: Vec<Unresolved>,
}

/// A connection whose first segment cannot leave yet.
pub(super) struct Pending {
    pub(super) app: u16,
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) options: FlowOptions,
    pub(super) hop: Hop,
    pub(super) look_at: Nanos,
    pub(super) until: Nanos,
}

/// A destination of datagrams whose next hop has been asked for its link address.
pub(super) struct Unresolved {
    pub(super) remote: IpAddr,
    pub(super) hop: Hop,
    pub(super) look_at: Nanos,
    pub(super) until: Nanos,
}

impl Pending {
    pub(super) fn key(&self) -> SocketKey {
        (self.app, self.slot, self.generation)
    }
}

impl Waiting {
    /// When to look next.
    pub(super) fn next_deadline(&self) -> Nanos {
        let connects = self.connects.iter().map(|one| one.look_at);
        let datagrams = self.datagrams.iter().map(|one| one.look_at);
        connects.chain(datagrams).min().unwrap_or(Nanos::FAR_FUTURE)
    }
}
