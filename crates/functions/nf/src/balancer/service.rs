//! Services and their servers.

use std::net::{Ipv4Addr, SocketAddrV4};

use base::Nanos;

use super::ring::{self, NONE};

/// Services, at most.
pub const SERVICES_MAX: usize = 256;
/// Servers of one service, at most.
pub const SERVERS_MAX: usize = 256;
/// The weight of a server, at most.
pub const WEIGHT_MAX: u32 = 100;

/// How long a flow that is not known goes by the ring of before, unless it begins.
pub(super) const PREVIOUS_FOR: Nanos = Nanos::from_secs(120);

/// How packets get to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// With the server's address and port as their destination; answers come back this way.
    #[default]
    Nat,
    /// As they are, to the server's link address; it has the service's address too, and answers
    /// by itself.
    Link,
    /// In a packet to the server (IPIP); it has the service's address too, and answers by itself.
    Ipip {
        /// Where that packet comes from.
        source: Ipv4Addr,
    },
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address and port.
    pub address: SocketAddrV4,
    /// Its share, beside those of the others; 0: no new flows.
    pub weight: u32,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Where clients find it.
    pub address: SocketAddrV4,
    /// TCP (6) or UDP (17).
    pub protocol: u8,
    /// How packets get to its servers.
    pub forwarding: Forwarding,
    /// Those that serve it.
    pub servers: Vec<Server>,
}

/// A ring and the servers that it names by their places.
type Previous = (Box<[u16]>, Vec<(u32, u16)>);

/// A service with its ring.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) end: (u32, u16),
    pub(super) protocol: u8,
    pub(super) forwarding: Forwarding,
    pub(super) servers: Vec<(u32, u16)>,
    /// With what weight each is in the ring.
    weights: Vec<u32>,
    ring: Box<[u16]>,
    /// The ring and servers of before, and until when they count.
    previous: Option<Previous>,
    pub(super) previous_until: Nanos,
}

fn number((address, port): (u32, u16)) -> u64 {
    u64::from(address) << 16 | u64::from(port)
}

impl Running {
    /// `is_well` says of each server whether it may get new flows. Without a ring it is to go on
    /// with that of before.
    pub(super) fn new(service: &Service, is_well: impl Fn(usize) -> bool, has_ring: bool) -> Self {
        let end = |at: &SocketAddrV4| (at.ip().to_bits(), at.port());
        let servers: Vec<_> =
            service.servers.iter().take(SERVERS_MAX).map(|server| end(&server.address)).collect();
        let weights: Vec<u32> = (0..)
            .zip(service.servers.iter().take(SERVERS_MAX))
            .map(|(index, server)| if is_well(index) { server.weight.min(WEIGHT_MAX) } else { 0 })
            .collect();
        let named: Vec<(u64, u32)> =
            servers.iter().copied().map(number).zip(weights.iter().copied()).collect();
        Self {
            end: end(&service.address),
            protocol: service.protocol,
            forwarding: service.forwarding,
            ring: if has_ring { ring::fill(&named) } else { Box::default() },
            servers,
            weights,
            previous: None,
            previous_until: Nanos::ZERO,
        }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.end, self.protocol) == (other.end, other.protocol)
    }

    #[cfg(test)]
    pub(super) fn ring(&self) -> &[u16] {
        &self.ring
    }

    /// Whether it gets new flows.
    pub(super) fn is_open(&self, server: (u32, u16)) -> bool {
        let mut all = self.servers.iter().zip(&self.weights);
        all.any(|(one, weight)| *one == server && *weight > 0)
    }

    /// Goes on after `before`, a service at the same place.
    pub(super) fn follow(&mut self, before: &mut Self, now: Nanos) {
        if (&self.servers, &self.weights) == (&before.servers, &before.weights) {
            self.previous = before.previous.take();
            self.previous_until = before.previous_until;
            if self.ring.is_empty() {
                std::mem::swap(&mut self.ring, &mut before.ring);
            }
        } else if self.ring.is_empty() {
            // It has no ring for these: as long as nobody makes one, those of before count.
            std::mem::swap(self, before);
        } else {
            let ring = std::mem::take(&mut before.ring);
            self.previous = Some((ring, std::mem::take(&mut before.servers)));
            self.previous_until = now + PREVIOUS_FOR;
        }
    }

    /// The server of a flow with that hash, and whether it is that of the ring of before, which
    /// counts for those that have begun.
    pub(super) fn choose(
        &self,
        hash: u64,
        has_begun: bool,
        now: Nanos,
    ) -> Option<((u32, u16), bool)> {
        let at = |ring: &[u16], servers: &[(u32, u16)]| {
            let server = *ring.get(hash as usize % ring::PLACES)?;
            (server != NONE).then(|| servers.get(usize::from(server)).copied())?
        };
        let present = at(&self.ring, &self.servers);
        if has_begun
            && now < self.previous_until
            && let Some((ring, servers)) = &self.previous
            && let Some(server) = at(ring, servers).filter(|server| self.servers.contains(server))
        {
            return Some((server, Some(server) != present));
        }
        present.map(|server| (server, false))
    }
}
