//! IPv4 destinations: DIR-24-8, longest prefix in one or two loads.
//!
//! The first 24 bits of an address choose one of 16 Mi entries, which holds the next hop; where
//! prefixes are longer than /24 it holds the number of a group of 256 instead, one for each last
//! octet (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory Access Speeds, 1998). Two
//! bytes an entry keep the whole in 32 MiB, of which the pages that have routes are in memory.
//! Prefixes up to /7 are in a table of 256 apart, looked at where nothing longer matches: a new
//! default route would else write millions of entries.

use super::HopId;

/// Groups of addresses with prefixes longer than /24.
pub const LONG_GROUPS: u16 = 0x8000;

const SLOTS: usize = 1 << 24;
/// In an entry of the first table: the rest is the number of a group.
const EXTENDED: u16 = 0x8000;
const LONG_SLOTS: usize = LONG_GROUPS as usize * 256;

/// The table.
#[derive(Clone)]
pub struct Fib4 {
    first24: Box<[u16; SLOTS]>,
    long: Box<[u16; LONG_SLOTS]>,
    first7: [u16; 256],
}

impl Fib4 {
    /// A table without routes. Its memory is mapped by the kernel as routes come.
    pub fn new() -> Self {
        Self { first24: zeroed(), long: zeroed(), first7: [0; 256] }
    }

    /// The next hop of one address.
    #[inline]
    pub fn lookup(&self, address: u32) -> HopId {
        let entry = self.first24[(address >> 8) as usize];
        HopId(self.finish(address, entry))
    }

    /// The next hops of many addresses: `hops[i]` becomes that of `addresses[i]`, as far as both
    /// reach.
    ///
    /// First all loads of the big table, then what is left to do: so the loads, most of which miss
    /// the caches, overlap.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[u32], hops: &mut [HopId]) {
        for (address, hop) in addresses.iter().zip(hops.iter_mut()) {
            hop.0 = self.first24[(address >> 8) as usize];
        }
        for (address, hop) in addresses.iter().zip(hops) {
            hop.0 = self.finish(*address, hop.0);
        }
    }

    #[inline]
    fn finish(&self, address: u32, mut entry: u16) -> u16 {
        if entry & EXTENDED != 0 {
            let group = usize::from(entry & !EXTENDED) << 8;
            entry = self.long[group | (address & 0xff) as usize];
        }
        // Read whether needed or not: a branch on it cannot be foretold for addresses at random.
        let short = self.first7[(address >> 24) as usize];
        if entry == 0 { short } else { entry }
    }

    /// The next hop of a /24 network that has no longer prefixes.
    pub(crate) fn whole(&self, slot: u32) -> Option<HopId> {
        let entry = *self.first24.get(slot as usize)?;
        (entry & EXTENDED == 0).then_some(HopId(entry))
    }

    pub(crate) fn fill24(&mut self, first: u32, count: u16, hop: HopId) {
        fill(&mut self.first24[..], first as usize, count, hop.0);
    }

    pub(crate) fn extend(&mut self, slot: u32, group: u16) {
        fill(&mut self.first24[..], slot as usize, 1, group | EXTENDED);
    }

    pub(crate) fn fill8(&mut self, group: u16, first: u8, count: u16, hop: HopId) {
        let start = usize::from(group) << 8 | usize::from(first);
        fill(&mut self.long[..], start, count, hop.0);
    }

    pub(crate) fn fill7(&mut self, first: u8, count: u16, hop: HopId) {
        fill(&mut self.first7, usize::from(first), count, hop.0);
    }
}

impl Default for Fib4 {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Fib4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fib4").finish_non_exhaustive()
    }
}

fn fill(table: &mut [u16], first: usize, count: u16, entry: u16) {
    if let Some(places) = table.get_mut(first..first + usize::from(count)) {
        places.fill(entry);
    }
}

/// Zeros on the heap, which the kernel maps when they are first touched.
fn zeroed<const N: usize>() -> Box<[u16; N]> {
    vec![0; N].into_boxed_slice().try_into().expect("a slice of N has N entries")
}
