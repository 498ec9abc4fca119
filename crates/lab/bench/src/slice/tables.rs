//! Forwarding tables that are measured: ours, and those of other crates, all with the same routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{BURST, PortId};
use calisto_nf::fib::HopId;
use calisto_nf::{Fib, NextHop, Rib};
use ipnet::{Ipv4Net, Ipv6Net};
use iptrie::map::{LCTrieMap, RTrieMap};
use iptrie::{Ipv4Prefix, Ipv6Prefix};
use poptrie::Poptrie;
use prefix_trie::PrefixMap;

use super::table::Route;
use crate::error::{Error, OrNeeds};

/// Tables of one crate.
pub(super) trait Tables: Sync {
    /// What they are.
    fn name(&self) -> &'static str;
    /// The sum of the next hops' numbers of all addresses, so that nothing can be left out.
    fn sum4(&self, addresses: &[u32]) -> u64;
    /// The same for IPv6.
    fn sum6(&self, addresses: &[u128]) -> u64;
}

/// Ours.
pub(super) struct Ours {
    /// The control side: it takes memory for as long as there are tables.
    _rib: Rib,
    /// A data thread's tables.
    pub(super) fib: Fib,
}

impl Ours {
    /// Takes all routes and makes the tables.
    pub(super) fn load(routes: &[Route]) -> Result<Self, Error> {
        let mut rib = Rib::new();
        for (prefix, hop) in routes {
            // As if each next hop were behind a port of its own.
            let to = NextHop::OnLink { port: PortId(*hop) };
            rib.load(*prefix, to).or_needs("room in the tables")?;
        }
        let fib = rib.fib(1);
        Ok(Self { _rib: rib, fib })
    }

    fn number(&self, id: HopId) -> u64 {
        match self.fib.hop(id).map(|hop| hop.to) {
            Some(NextHop::OnLink { port }) => u64::from(port.0),
            _ => 0,
        }
    }
}

/// The number of a next hop by its place in the tables, found once: others return their value
/// directly.
fn number_of(ours: &Ours) -> Vec<u64> {
    (0..HopId::LIMIT).map(|id| ours.number(HopId(id))).collect()
}

/// Ours as a data thread uses them: a batch at a time.
pub(super) struct Batched<'a> {
    ours: &'a Ours,
    numbers: Vec<u64>,
}

impl<'a> Batched<'a> {
    /// Over these tables.
    pub(super) fn new(ours: &'a Ours) -> Self {
        Self { ours, numbers: number_of(ours) }
    }
}

impl Tables for Batched<'_> {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn sum4(&self, addresses: &[u32]) -> u64 {
        let mut hops = [HopId::NONE; BURST];
        let mut sum = 0;
        for addresses in addresses.chunks(BURST) {
            self.ours.fib.four.lookup_batch(addresses, &mut hops);
            sum += hops[..addresses.len()].iter().map(|id| self.numbers[id.index()]).sum::<u64>();
        }
        sum
    }

    fn sum6(&self, addresses: &[u128]) -> u64 {
        let mut hops = [HopId::NONE; BURST];
        let mut sum = 0;
        for addresses in addresses.chunks(BURST) {
            self.ours.fib.six.lookup_batch(addresses, &mut hops);
            sum += hops[..addresses.len()].iter().map(|id| self.numbers[id.index()]).sum::<u64>();
        }
        sum
    }
}

/// The crate poptrie.
pub(super) struct PoptrieTables {
    four: Poptrie<(Ipv4Addr, u8), u16>,
    six: Poptrie<(Ipv6Addr, u8), u16>,
}

impl PoptrieTables {
    /// With all routes.
    pub(super) fn load(routes: &[Route]) -> Self {
        let four = routes.iter().filter_map(|(prefix, hop)| match prefix.address() {
            IpAddr::V4(four) => Some(((four, prefix.bits()), *hop)),
            IpAddr::V6(_) => None,
        });
        let six = routes.iter().filter_map(|(prefix, hop)| match prefix.address() {
            IpAddr::V4(_) => None,
            IpAddr::V6(six) => Some(((six, prefix.bits()), *hop)),
        });
        Self { four: four.collect(), six: six.collect() }
    }
}

impl Tables for PoptrieTables {
    fn name(&self) -> &'static str {
        "poptrie"
    }

    fn sum4(&self, addresses: &[u32]) -> u64 {
        let look = |address: &u32| self.four.lookup(Ipv4Addr::from_bits(*address)).copied();
        addresses.iter().map(|address| u64::from(look(address).unwrap_or(0))).sum()
    }

    fn sum6(&self, addresses: &[u128]) -> u64 {
        let look = |address: &u128| self.six.lookup(Ipv6Addr::from_bits(*address)).copied();
        addresses.iter().map(|address| u64::from(look(address).unwrap_or(0))).sum()
    }
}

/// The crate prefix-trie.
pub(super) struct PrefixTrieTables {
    four: PrefixMap<Ipv4Net, u16>,
    six: PrefixMap<Ipv6Net, u16>,
}

impl PrefixTrieTables {
    /// With all routes.
    pub(super) fn load(routes: &[Route]) -> Self {
        let (mut four, mut six) = (PrefixMap::new(), PrefixMap::new());
        for (prefix, hop) in routes {
            match prefix.address() {
                IpAddr::V4(address) => {
                    four.insert(Ipv4Net::new_assert(address, prefix.bits()), *hop);
                }
                IpAddr::V6(address) => {
                    six.insert(Ipv6Net::new_assert(address, prefix.bits()), *hop);
                }
            }
        }
        Self { four, six }
    }
}

impl Tables for PrefixTrieTables {
    fn name(&self) -> &'static str {
        "prefix-trie"
    }

    fn sum4(&self, addresses: &[u32]) -> u64 {
        let look = |address: &u32| {
            let host = Ipv4Net::new_assert(Ipv4Addr::from_bits(*address), 32);
            self.four.get_lpm(&host).map(|(_, hop)| *hop)
        };
        addresses.iter().map(|address| u64::from(look(address).unwrap_or(0))).sum()
    }

    fn sum6(&self, addresses: &[u128]) -> u64 {
        let look = |address: &u128| {
            let host = Ipv6Net::new_assert(Ipv6Addr::from_bits(*address), 128);
            self.six.get_lpm(&host).map(|(_, hop)| *hop)
        };
        addresses.iter().map(|address| u64::from(look(address).unwrap_or(0))).sum()
    }
}

/// The crate iptrie, level-compressed: the faster of its two kinds.
pub(super) struct IptrieTables {
    four: LCTrieMap<Ipv4Prefix, u16>,
    six: LCTrieMap<Ipv6Prefix, u16>,
}

impl IptrieTables {
    /// With all routes. It always has a default route: to next hop zero.
    pub(super) fn load(routes: &[Route]) -> Result<Self, Error> {
        let mut four = RTrieMap::with_root(0);
        let mut six = RTrieMap::with_root(0);
        for (prefix, hop) in routes {
            match prefix.address() {
                IpAddr::V4(address) => {
                    let key = Ipv4Prefix::new(address, prefix.bits());
                    four.insert(key.or_needs("prefix that iptrie takes")?, *hop);
                }
                IpAddr::V6(address) => {
                    let key = Ipv6Prefix::new(address, prefix.bits());
                    six.insert(key.or_needs("prefix that iptrie takes")?, *hop);
                }
            }
        }
        Ok(Self { four: four.compress(), six: six.compress() })
    }
}

impl Tables for IptrieTables {
    fn name(&self) -> &'static str {
        "iptrie"
    }

    fn sum4(&self, addresses: &[u32]) -> u64 {
        let look = |address: &u32| *self.four.lookup(&Ipv4Addr::from_bits(*address)).1;
        addresses.iter().map(|address| u64::from(look(address))).sum()
    }

    fn sum6(&self, addresses: &[u128]) -> u64 {
        let look = |address: &u128| *self.six.lookup(&Ipv6Addr::from_bits(*address)).1;
        addresses.iter().map(|address| u64::from(look(address))).sum()
    }
}
