//! One tunnel as its owner describes it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::packet::Own;
use super::replay::{WINDOW_MAX, WINDOW_MIN};
use super::{Algorithm, Secret};
use crate::Prefix;

/// A tunnel between this gateway and another: one association in each direction.
#[derive(Debug)]
pub struct Tunnel {
    /// What it is called in sentences.
    pub name: String,
    /// This gateway's address, of the version that the outer packets have.
    pub local: IpAddr,
    /// The other gateway's.
    pub remote: IpAddr,
    /// Networks behind this gateway.
    pub local_networks: Vec<Prefix>,
    /// Networks behind the other one.
    pub remote_networks: Vec<Prefix>,
    /// Of packets that we send.
    pub outbound: Association,
    /// Of packets that come.
    pub inbound: Association,
    /// Bytes of the largest outer packet.
    pub mtu: u16,
    /// How far behind the newest a packet may come and still be told from a repeated one, in
    /// packets.
    pub replay_window: u32,
    /// Whether sequence numbers have 64 bits, of which 32 are sent. Both ends must agree.
    pub is_extended: bool,
    /// Our address in the networks behind this gateway: whom ICMP errors come from. Unless given,
    /// `local` where it is of that version, or 192.0.0.8 (RFC 7600), or for IPv6 nobody, and no
    /// error is sent.
    pub address_ipv4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub address_ipv6: Option<Ipv6Addr>,
}

/// One direction of a tunnel.
#[derive(Debug)]
pub struct Association {
    /// The number by which the receiver finds it.
    pub spi: u32,
    /// Its keys.
    pub secret: Secret,
}

impl Association {
    /// Whether both are one: the same number and the same keys.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.spi == other.spi && self.secret.is(&other.secret)
    }
}

/// SPIs up to this one are not for associations (RFC 4303 section 2.1).
pub(crate) const SPI_RESERVED: u32 = 255;
/// The smallest outer packet that every host takes (RFC 791: 576 bytes).
pub const MTU_MIN: u16 = 576;
/// IPv6 is carried only by links of this (RFC 8200 section 5).
const IPV6_MTU_MIN: u16 = 1280;
/// Networks at one end of a tunnel.
pub const NETWORKS_MAX: usize = 64;

const IPV4_BYTES: u16 = 20;
const IPV6_BYTES: u16 = 40;
const ESP_BYTES: u16 = 8;
const TRAILER_BYTES: u16 = 2;

impl Tunnel {
    /// The largest packet that goes through: what ICMP errors tell as the MTU.
    pub fn inner_mtu(&self) -> u16 {
        let algorithm = self.outbound.secret.algorithm();
        let outer = if self.local.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
        let fixed = outer + ESP_BYTES + (algorithm.iv_bytes() + algorithm.icv_bytes()) as u16;
        let block = algorithm.block_bytes() as u16;
        let padded = self.mtu.saturating_sub(fixed) / block * block;
        padded.saturating_sub(TRAILER_BYTES)
    }

    /// Bytes of the IP header around it.
    pub(crate) const fn outer_bytes(&self) -> usize {
        (if self.local.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES }) as usize
    }

    /// Whom ICMP errors about packets of IPv4 come from.
    fn answers_ipv4(&self) -> [u8; 4] {
        let own = self.address_ipv4.or(match self.local {
            IpAddr::V4(local) => Some(local),
            IpAddr::V6(_) => None,
        });
        own.unwrap_or(DUMMY).octets()
    }

    /// Whom ICMPv6 errors come from, if anybody.
    fn answers_ipv6(&self) -> Option<[u8; 16]> {
        let own = self.address_ipv6.or(match self.local {
            IpAddr::V4(_) => None,
            IpAddr::V6(local) => Some(local),
        });
        own.map(|address| address.octets())
    }

    /// Addresses that ICMP errors come from.
    pub(crate) fn answers(&self) -> Own {
        Own { four: self.answers_ipv4(), six: self.answers_ipv6() }
    }

    /// Whether it can be carried out.
    pub(crate) fn check(&self) -> Result<(), BadTunnel> {
        let bad = |why| Err(BadTunnel { name: self.name.clone(), why });
        if self.local.is_ipv4() != self.remote.is_ipv4() {
            return bad(Why::Versions);
        }
        if !is_host(self.local) || !is_host(self.remote) || self.local == self.remote {
            return bad(Why::Ends);
        }
        for (what, networks) in
            [("local_networks", &self.local_networks), ("remote_networks", &self.remote_networks)]
        {
            if networks.is_empty() || networks.len() > NETWORKS_MAX {
                return bad(Why::Networks(what));
            }
        }
        for association in [&self.outbound, &self.inbound] {
            if association.spi <= SPI_RESERVED {
                return bad(Why::Spi(association.spi));
            }
        }
        if self.outbound.secret.encrypts_like(&self.inbound.secret) {
            return bad(Why::SameKey);
        }
        let carries_ipv6 = self.local_networks.iter().any(|network| !network.address().is_ipv4());
        let needs = if carries_ipv6 { IPV6_MTU_MIN } else { 0 };
        if self.mtu < MTU_MIN || self.inner_mtu() < needs {
            return bad(Why::Mtu { inner: self.inner_mtu(), needs });
        }
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&self.replay_window) {
            return bad(Why::Window(self.replay_window));
        }
        Ok(())
    }
}

/// RFC 7600 section 4.8: the address of nobody, for ICMP errors of who has none.
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => wire::ipv4::is_host(address.octets()),
        IpAddr::V6(address) => wire::ipv6::is_host(address.octets()),
    }
}

/// Why a tunnel is refused; its text is a sentence for who described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTunnel {
    name: String,
    why: Why,
}

impl BadTunnel {
    pub(crate) fn same(name: &str, spi: u32, other: &str) -> Self {
        Self { name: name.to_owned(), why: Why::SameSpi { spi, other: other.to_owned() } }
    }

    pub(crate) fn too_many() -> Self {
        Self { name: String::new(), why: Why::TooMany }
    }

    pub(crate) fn no_pair(name: &str) -> Self {
        Self { name: name.to_owned(), why: Why::NoPair }
    }

    pub(crate) fn same_key(name: &str) -> Self {
        Self { name: name.to_owned(), why: Why::KeyElsewhere }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    Versions,
    Ends,
    Networks(&'static str),
    Spi(u32),
    SameKey,
    KeyElsewhere,
    NoPair,
    SameSpi { spi: u32, other: String },
    Mtu { inner: u16, needs: u16 },
    Window(u32),
    TooMany,
}

impl fmt::Display for BadTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.why == Why::TooMany {
            return write!(
                f,
                "there may be {} tunnels at most, and {} pairs of a network here and one there",
                super::TUNNELS_MAX,
                super::PAIRS_MAX
            );
        }
        write!(f, "tunnel `{}`: ", self.name)?;
        match &self.why {
            Why::Versions => f.write_str(
                "`local` and `remote` are of different IP versions: the outer packet has only one",
            ),
            Why::Ends => f.write_str(
                "`local` and `remote` must be addresses of two hosts, not of one, a group or nobody",
            ),
            Why::Networks(what) => {
                write!(f, "`{what}` must name 1 to {NETWORKS_MAX} networks, as \"10.1.0.0/16\"")
            }
            Why::Spi(spi) => write!(f, "SPI {spi} is reserved: choose one from {}", SPI_RESERVED + 1),
            Why::SameKey => f.write_str(
                "both directions have the same key: draw another one, for example by `openssl rand -hex 20`",
            ),
            Why::KeyElsewhere => f.write_str(
                "another tunnel sends with the same key: draw another one, for example by `openssl rand -hex 20`",
            ),
            Why::NoPair => f.write_str(
                "the networks at both ends have no IP version in common: nothing would go through",
            ),
            Why::SameSpi { spi, other } => write!(
                f,
                "packets with SPI {spi:#x} come for tunnel `{other}` already: choose another one"
            ),
            Why::Mtu { inner, needs: 0 } => {
                write!(f, "`mtu` must be at least {MTU_MIN}; packets of {inner} bytes would go through")
            }
            Why::Mtu { inner, needs } => write!(
                f,
                "IPv6 must be carried in packets of {needs} bytes, and only {inner} go through: raise `mtu`"
            ),
            Why::Window(window) => write!(
                f,
                "`replay_window` is {window}; it may be {WINDOW_MIN} to {WINDOW_MAX} packets"
            ),
            Why::TooMany => Ok(()),
        }
    }
}

impl std::error::Error for BadTunnel {}

/// What a file says of a tunnel's algorithm by default.
pub(crate) const DEFAULT_ALGORITHM: Algorithm = Algorithm::Gcm;
/// Of its MTU: Ethernet's.
pub(crate) const DEFAULT_MTU: u16 = 1500;
/// Of its window: what a burst may be overtaken by on other cores and other paths.
pub(crate) const DEFAULT_WINDOW: u32 = 4096;
