//! Tunnels as an operator describes them.

use std::fmt;
use std::net::IpAddr;

use crate::Prefix;

/// Tunnels of a chain, at most: a packet is held against all of them.
pub const TUNNELS_MAX: usize = 256;
/// Networks behind one tunnel, at most.
pub const NETWORKS_MAX: usize = 64;
/// The smallest `mtu` of a tunnel between IPv4 addresses (RFC 791: what every host takes).
pub const MTU_MIN_IPV4: u16 = 576;
/// The same between IPv6 addresses (RFC 8200 section 5).
pub const MTU_MIN_IPV6: u16 = 1280;

/// IPv4 and IPv6 in another packet, GRE: their protocol numbers.
const IPV4_INSIDE: u8 = 4;
const IPV6_INSIDE: u8 = 41;
const GRE: u8 = 47;

/// How packets are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As they are, behind an IP header (RFC 2003, 4213, 2473).
    Ipip,
    /// Behind a header of GRE, too (RFC 2784).
    Gre,
}

impl Kind {
    /// Whether that protocol may be one of a tunnel's.
    pub(super) const fn is_of_any(protocol: u8) -> bool {
        matches!(protocol, IPV4_INSIDE | IPV6_INSIDE | GRE)
    }

    /// Whether packets of this kind are of that protocol.
    pub(super) const fn is_carried_by(self, protocol: u8) -> bool {
        match self {
            Self::Ipip => matches!(protocol, IPV4_INSIDE | IPV6_INSIDE),
            Self::Gre => protocol == GRE,
        }
    }

    /// The protocol of an outer packet.
    pub(super) const fn protocol(self, is_inner_ipv4: bool) -> u8 {
        match self {
            Self::Gre => GRE,
            Self::Ipip if is_inner_ipv4 => IPV4_INSIDE,
            Self::Ipip => IPV6_INSIDE,
        }
    }
}

/// One tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelSettings {
    /// How packets are carried.
    pub kind: Kind,
    /// Our end.
    pub local: IpAddr,
    /// The other.
    pub remote: IpAddr,
    /// What is behind that.
    pub networks: Vec<Prefix>,
    /// Of GRE.
    pub key: Option<u32>,
    /// Bytes of the largest outer packet.
    pub mtu: u16,
    /// Addresses that ICMP errors come from.
    pub addresses: Vec<IpAddr>,
}

/// Why a tunnel cannot be: its place, from zero, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTunnel {
    /// Its place among the tunnels.
    pub index: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

impl fmt::Display for BadTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tunnel {}: {}", self.index + 1, self.why)
    }
}

impl std::error::Error for BadTunnel {}

impl TunnelSettings {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let least = if self.local.is_ipv4() { MTU_MIN_IPV4 } else { MTU_MIN_IPV6 };
        let holds_remote = |network: &Prefix| network.contains(self.remote);
        match self {
            Self { local, remote, .. } if local.is_ipv4() != remote.is_ipv4() => {
                Err("`local` and `remote` are of different IP versions")
            }
            Self { local, remote, .. } if local == remote => {
                Err("`local` and `remote` are the same address")
            }
            Self { kind: Kind::Ipip, key: Some(_), .. } => Err("only GRE has a key"),
            Self { networks, .. } if networks.is_empty() || networks.len() > NETWORKS_MAX => {
                Err("it has no networks, or more than 64")
            }
            // Packets of the tunnel would go into the tunnel.
            Self { networks, .. } if networks.iter().any(holds_remote) => {
                Err("`remote` is within `networks`, so the tunnel would go through itself")
            }
            Self { mtu, .. } if *mtu < least => {
                Err("`mtu` is less than 576, or than 1280 between IPv6 addresses")
            }
            // RFC 8200 section 5: whoever is told of less sends no less.
            Self { mtu, networks, .. }
                if networks.iter().any(|network| network.address().is_ipv6())
                    && *mtu < MTU_MIN_IPV6 + self.head_bytes() =>
            {
                Err(
                    "`mtu` leaves less than the 1280 bytes inside that IPv6 needs: 20 bytes more than \
                     that between IPv4 addresses, 40 between IPv6 addresses, with GRE 4 more, with a \
                     key 8",
                )
            }
            _ => Ok(()),
        }
    }

    /// Bytes in front of the inner packet.
    fn head_bytes(&self) -> u16 {
        let outer = if self.local.is_ipv4() { 20 } else { 40 };
        match (self.kind, self.key) {
            (Kind::Ipip, _) => outer,
            (Kind::Gre, None) => outer + 4,
            (Kind::Gre, Some(_)) => outer + 8,
        }
    }
}
