//! All tunnels of a gateway, as its slices share them.

use std::net::IpAddr;
use std::ops::Range;

use base::Nanos;

use super::Secret;
use super::replay::Replay;
use super::selector::{self, Address, Network};
use super::sequence::Sequence;
use super::tunnel::{BadTunnel, Tunnel};

/// Tunnels of one gateway.
pub const TUNNELS_MAX: usize = 256;
/// Pairs of a network here and one there, of all tunnels: as each packet is held against them in
/// turn.
pub const PAIRS_MAX: usize = 4096;

/// Tunnels, and how far each has come. One for all slices: each packet has a number that no other
/// has, and is accepted once, wherever it arrives.
#[derive(Debug)]
pub struct Gateway {
    /// A packet belongs to the first pair that it fits.
    pairs: Box<[Pair]>,
    /// Sorted by the SPI of what comes.
    by_spi: Box<[(u32, u16)]>,
    /// Sorted.
    own: Box<[Address]>,
    links: Box<[Link]>,
}

/// A tunnel and how far it has come.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) tunnel: Tunnel,
    pub(crate) inner_mtu: u16,
    pub(crate) sent: Sequence,
    /// What initialisation vectors are counted from.
    pub(crate) iv_start: u64,
    pub(crate) seen: Replay,
    /// Its part of the pairs.
    pairs: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    local: Network,
    remote: Network,
    tunnel: u16,
}

/// What the gateway has to do with a packet that is no ESP for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// It goes into this tunnel.
    Protect(u16),
    /// It should have come out of a tunnel, and did not.
    Unprotected,
    /// Nobody has said anything of it.
    None,
}

impl Gateway {
    /// Puts tunnels together.
    ///
    /// `started` is the time of day, counted from any fixed point in the past. Initialisation
    /// vectors are counted on from it, one for each packet, and a packet takes longer than a
    /// nanosecond: so one that starts again with the same keys takes none that it has taken before,
    /// as long as its clock is not put back.
    ///
    /// # Errors
    /// A tunnel that cannot be carried out, two that packets cannot be told apart of, or too many.
    pub fn new(tunnels: Vec<Tunnel>, started: Nanos) -> Result<Self, BadTunnel> {
        if tunnels.len() > TUNNELS_MAX {
            return Err(BadTunnel::too_many());
        }
        for (at, tunnel) in tunnels.iter().enumerate() {
            tunnel.check()?;
            let earlier = &tunnels[..at];
            let spi = tunnel.inbound.spi;
            if let Some(other) = earlier.iter().find(|other| other.inbound.spi == spi) {
                return Err(BadTunnel::same(&tunnel.name, spi, &other.name));
            }
            let sent = &tunnel.outbound.secret;
            let is_known = |other: &Tunnel| {
                sent.encrypts_like(&other.outbound.secret)
                    || sent.encrypts_like(&other.inbound.secret)
            };
            if earlier.iter().any(is_known) {
                return Err(BadTunnel::same_key(&tunnel.name));
            }
        }
        let mut pairs = Vec::new();
        let mut by_spi = Vec::new();
        let mut own = Vec::new();
        let mut ranges = Vec::new();
        for (number, tunnel) in (0u16..).zip(&tunnels) {
            let first = pairs.len();
            for local in &tunnel.local_networks {
                let remotes = tunnel.remote_networks.iter();
                let same = remotes
                    .filter(|remote| remote.address().is_ipv4() == local.address().is_ipv4());
                let local = Network::of(local);
                let pair = |remote| Pair { local, remote: Network::of(remote), tunnel: number };
                pairs.extend(same.map(pair));
            }
            if pairs.len() == first {
                return Err(BadTunnel::no_pair(&tunnel.name));
            }
            if pairs.len() > PAIRS_MAX {
                return Err(BadTunnel::too_many());
            }
            ranges.push(first..pairs.len());
            by_spi.push((tunnel.inbound.spi, number));
            own.push(selector::of(tunnel.local));
        }
        by_spi.sort_unstable();
        own.sort_unstable();
        own.dedup();
        let link = |(tunnel, pairs): (Tunnel, Range<usize>)| Link {
            pairs,
            inner_mtu: tunnel.inner_mtu(),
            sent: Sequence::new(tunnel.is_extended),
            iv_start: started.0,
            seen: Replay::new(tunnel.replay_window, tunnel.is_extended),
            tunnel,
        };
        Ok(Self {
            pairs: pairs.into(),
            by_spi: by_spi.into(),
            own: own.into(),
            links: tunnels.into_iter().zip(ranges).map(link).collect(),
        })
    }

    /// The addresses that ESP comes to: what a filter has to let through.
    pub fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.links.iter().map(|link| link.tunnel.local)
    }

    /// Every tunnel.
    pub fn tunnels(&self) -> impl Iterator<Item = &Tunnel> {
        self.links.iter().map(|link| &link.tunnel)
    }

    /// Keys of every tunnel: what goes out, what comes in.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = [&Secret; 2]> {
        self.tunnels().map(|tunnel| [&tunnel.outbound.secret, &tunnel.inbound.secret])
    }

    #[inline]
    pub(crate) fn link(&self, number: u16) -> &Link {
        &self.links[usize::from(number)]
    }

    #[inline]
    pub(crate) fn is_own(&self, address: Address) -> bool {
        match &*self.own {
            [only] => *only == address,
            all => all.binary_search(&address).is_ok(),
        }
    }

    /// The tunnel whose packets come with that SPI, to that address.
    #[inline]
    pub(crate) fn by_spi(&self, spi: u32, to: Address) -> Option<u16> {
        let at = self.by_spi.binary_search_by_key(&spi, |&(spi, _)| spi).ok()?;
        let (_, number) = self.by_spi[at];
        (selector::of(self.link(number).tunnel.local) == to).then_some(number)
    }

    /// What becomes of a packet in the clear.
    #[inline]
    pub(crate) fn policy(&self, from: Address, to: Address) -> Policy {
        for Pair { local, remote, tunnel } in &self.pairs {
            if local.contains(from) && remote.contains(to) {
                return Policy::Protect(*tunnel);
            }
        }
        let is_reverse = |pair: &Pair| pair.remote.contains(from) && pair.local.contains(to);
        if self.pairs.iter().any(is_reverse) { Policy::Unprotected } else { Policy::None }
    }

    /// Whether a packet from inside tunnel `number` is of the networks that the tunnel is for.
    #[inline]
    pub(crate) fn may_bring(&self, number: u16, from: Address, to: Address) -> bool {
        let own = &self.pairs[self.link(number).pairs.clone()];
        own.iter().any(|pair| pair.remote.contains(from) && pair.local.contains(to))
    }
}
