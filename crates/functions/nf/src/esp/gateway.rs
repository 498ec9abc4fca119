//! All tunnels of a gateway, as its slices share them.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

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

/// How long packets of an association are still taken that a file of keys does not name any
/// more: keys are changed at both ends one after the other, by hand.
pub const RETIRED_FOR: Nanos = Nanos::from_secs(600);

/// Tunnels, and how far each has come. One for all slices: each packet has a number that no other
/// has, and is accepted once, wherever it arrives.
#[derive(Debug)]
pub struct Gateway {
    /// A packet belongs to the first pair that it fits.
    pairs: Box<[Pair]>,
    /// How many of the pairs, and of the links, are of tunnels that packets are sent into; behind
    /// them are those of associations that are still received.
    sending: (usize, usize),
    /// Sorted by the SPI of what comes.
    by_spi: Box<[(u32, u16)]>,
    /// Sorted.
    own: Box<[Address]>,
    links: Box<[Link]>,
}

/// A tunnel and how far it has come.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) tunnel: Arc<Tunnel>,
    pub(crate) inner_mtu: u16,
    pub(crate) sent: Arc<Sequence>,
    /// What initialisation vectors are counted from.
    pub(crate) iv_start: u64,
    pub(crate) seen: Arc<Replay>,
    /// Packets are taken until then.
    until: Nanos,
    /// Its part of the pairs.
    pairs: Range<usize>,
}

impl Link {
    /// Sends on where `before` has come to, if it is the same association.
    fn sends_on(&mut self, before: &Self) {
        let (new, old) = (&self.tunnel, &before.tunnel);
        if new.outbound.is(&old.outbound) && new.is_extended == old.is_extended {
            self.sent = Arc::clone(&before.sent);
            self.iv_start = before.iv_start;
        }
    }

    /// Whether it receives by the association of `before`, whose packets are known then.
    fn receives_on(&mut self, before: &Self) -> bool {
        let (new, old) = (&self.tunnel, &before.tunnel);
        let is_same = new.inbound.is(&old.inbound)
            && new.is_extended == old.is_extended
            && new.replay_window == old.replay_window;
        if is_same {
            self.seen = Arc::clone(&before.seen);
        }
        is_same
    }
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
        Self::succeeding(tunnels, started, &[], Nanos::ZERO)
    }

    /// Puts tunnels together that take the place of those of `before`. Associations that are the
    /// same go on where they are, number by number; packets of those that are gone are still taken
    /// for [`RETIRED_FOR`] from `now`, as far as there is room for them.
    ///
    /// # Errors
    /// As [`Self::new`], `started` too.
    pub fn after(
        before: &Self,
        tunnels: Vec<Tunnel>,
        started: Nanos,
        now: Nanos,
    ) -> Result<Self, BadTunnel> {
        Self::succeeding(tunnels, started, &before.links, now)
    }

    fn succeeding(
        tunnels: Vec<Tunnel>,
        started: Nanos,
        before: &[Link],
        now: Nanos,
    ) -> Result<Self, BadTunnel> {
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
        let mut own_addresses = Vec::new();
        let mut ranges = Vec::new();
        for (number, tunnel) in (0u16..).zip(&tunnels) {
            let first = pairs.len();
            pairs.extend(pairs_of(tunnel, number));
            if pairs.len() == first {
                return Err(BadTunnel::no_pair(&tunnel.name));
            }
            if pairs.len() > PAIRS_MAX {
                return Err(BadTunnel::too_many());
            }
            ranges.push(first..pairs.len());
            by_spi.push((tunnel.inbound.spi, number));
            own_addresses.push(selector::of(tunnel.local));
        }
        let sending = (pairs.len(), tunnels.len());
        let link = |(tunnel, pairs): (Tunnel, Range<usize>)| Link {
            pairs,
            inner_mtu: tunnel.inner_mtu(),
            sent: Arc::new(Sequence::new(tunnel.is_extended)),
            iv_start: started.0,
            seen: Arc::new(Replay::new(tunnel.replay_window, tunnel.is_extended)),
            until: Nanos::FAR_FUTURE,
            tunnel: Arc::new(tunnel),
        };
        let mut links: Vec<Link> = tunnels.into_iter().zip(ranges).map(link).collect();
        for old in before.iter().filter(|old| now < old.until) {
            let mut is_received = false;
            for link in &mut links[..sending.1] {
                link.sends_on(old);
                is_received |= link.receives_on(old);
            }
            let spi = old.tunnel.inbound.spi;
            let has_room =
                links.len() < TUNNELS_MAX && !by_spi.iter().any(|(taken, _)| *taken == spi);
            if is_received || !has_room {
                continue;
            }
            let first = pairs.len();
            let number = links.len() as u16;
            pairs.extend(pairs_of(&old.tunnel, number));
            if pairs.len() > PAIRS_MAX {
                pairs.truncate(first);
                continue;
            }
            by_spi.push((spi, number));
            own_addresses.push(selector::of(old.tunnel.local));
            links.push(Link {
                tunnel: Arc::clone(&old.tunnel),
                inner_mtu: old.inner_mtu,
                sent: Arc::clone(&old.sent),
                iv_start: old.iv_start,
                seen: Arc::clone(&old.seen),
                until: old.until.min(now + RETIRED_FOR),
                pairs: first..pairs.len(),
            });
        }
        by_spi.sort_unstable();
        own_addresses.sort_unstable();
        own_addresses.dedup();
        Ok(Self {
            pairs: pairs.into(),
            sending,
            by_spi: by_spi.into(),
            own: own_addresses.into(),
            links: links.into(),
        })
    }

    /// The addresses that ESP comes to: what a filter has to let through.
    pub fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.links.iter().map(|link| link.tunnel.local)
    }

    /// Every tunnel, and behind them those whose packets are still taken.
    pub fn tunnels(&self) -> impl Iterator<Item = &Tunnel> {
        self.links.iter().map(|link| &*link.tunnel)
    }

    /// How many associations are only received any more.
    pub fn retired(&self) -> usize {
        self.links.len() - self.sending.1
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
    pub(crate) fn by_spi(&self, spi: u32, to: Address, now: Nanos) -> Option<u16> {
        let at = self.by_spi.binary_search_by_key(&spi, |&(spi, _)| spi).ok()?;
        let (_, number) = self.by_spi[at];
        let link = self.link(number);
        (selector::of(link.tunnel.local) == to && now < link.until).then_some(number)
    }

    /// What becomes of a packet in the clear.
    #[inline]
    pub(crate) fn policy(&self, from: Address, to: Address) -> Policy {
        let sending = self.pairs.get(..self.sending.0).unwrap_or_default();
        for Pair { local, remote, tunnel } in sending {
            if local.contains(from) && remote.contains(to) {
                return Policy::Protect(*tunnel);
            }
        }
        let is_reverse = |pair: &Pair| pair.remote.contains(from) && pair.local.contains(to);
        if sending.iter().any(is_reverse) { Policy::Unprotected } else { Policy::None }
    }

    /// Whether a packet from inside tunnel `number` is of the networks that the tunnel is for.
    #[inline]
    pub(crate) fn may_bring(&self, number: u16, from: Address, to: Address) -> bool {
        let own = &self.pairs[self.link(number).pairs.clone()];
        own.iter().any(|pair| pair.remote.contains(from) && pair.local.contains(to))
    }
}

/// Each network here with each one there of its version.
fn pairs_of(tunnel: &Tunnel, number: u16) -> impl Iterator<Item = Pair> {
    tunnel.local_networks.iter().flat_map(move |local| {
        let remotes = tunnel.remote_networks.iter();
        let same = remotes.filter(|remote| remote.address().is_ipv4() == local.address().is_ipv4());
        let local = Network::of(local);
        same.map(move |remote| Pair { local, remote: Network::of(remote), tunnel: number })
    })
}
