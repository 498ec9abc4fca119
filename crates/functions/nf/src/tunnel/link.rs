//! Tunnels, ready for packets.

use std::net::IpAddr;
use std::sync::Arc;

use base::Nanos;

use super::mtu::PathMtu;
use super::settings::{BadTunnel, Kind, MTU_MIN_IPV6, TUNNELS_MAX, TunnelSettings};
use super::wrap::Head;
use crate::esp::packet::{Own, Packet};
use crate::esp::selector::{self, Address, Network};

/// One tunnel as packets are held against it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) kind: Kind,
    pub(super) local: Address,
    pub(super) remote: Address,
    /// What is written before each packet, the header of GRE too.
    pub(super) head: Head,
    pub(super) networks: Box<[Network]>,
    pub(super) key: Option<u32>,
    pub(super) own: Own,
    pub(super) path: PathMtu,
}

impl Link {
    /// Bytes of the longest packet that goes in, as `packet` of `frame` does.
    #[inline]
    pub(super) fn inner_mtu(&self, packet: &Packet, frame: &[u8], now: Nanos) -> u16 {
        let most = match packet.may_be_fragmented(frame) {
            // Who sends such a packet does not ask how long the path is, and of a later fragment
            // nobody may be told: it would be lost for whatever was made up.
            true => self.path.most(),
            false => self.path.get(now),
        };
        let inner = most.saturating_sub(self.head.bytes());
        // RFC 8200 section 5: no host sends less than that in one packet, whatever it is told, so
        // that a path which takes less is one that carries no IPv6, or was made up.
        if packet.is_ipv4 { inner } else { inner.max(MTU_MIN_IPV6) }
    }
}

/// The tunnels, ready for packets.
pub(super) fn links(tunnels: &[TunnelSettings]) -> Result<Arc<[Link]>, BadTunnel> {
    if tunnels.len() > TUNNELS_MAX {
        return Err(BadTunnel { index: TUNNELS_MAX, why: "256 tunnels are the most" });
    }
    let link = |(index, tunnel): (usize, &TunnelSettings)| {
        tunnel.check().map_err(|why| BadTunnel { index, why })?;
        Ok(Link {
            kind: tunnel.kind,
            local: selector::of(tunnel.local),
            remote: selector::of(tunnel.remote),
            head: Head::new(tunnel),
            networks: tunnel.networks.iter().map(Network::of).collect(),
            key: tunnel.key,
            own: own(tunnel),
            path: PathMtu::new(tunnel.mtu, tunnel.local.is_ipv4()),
        })
    };
    tunnels.iter().enumerate().map(link).collect()
}

/// Addresses that ICMP errors about packets for a tunnel come from.
fn own(tunnel: &TunnelSettings) -> Own {
    /// RFC 7600 section 4.5: an address that routers without one of their own answer from.
    const DUMMY: [u8; 4] = [192, 0, 0, 8];
    let all = || tunnel.addresses.iter().chain([&tunnel.local]);
    let four = all().find_map(|address| match address {
        IpAddr::V4(four) => Some(four.octets()),
        IpAddr::V6(_) => None,
    });
    let six = all().find_map(|address| match address {
        IpAddr::V6(six) => Some(six.octets()),
        IpAddr::V4(_) => None,
    });
    Own { four: four.unwrap_or(DUMMY), six }
}
