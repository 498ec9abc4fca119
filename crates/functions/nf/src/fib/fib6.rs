//! IPv6 destinations: a trie of six bits a node whose empty places take no room.
//!
//! The first 16 bits of an address choose a cell: the next hop of prefixes up to /16, and the node
//! below which the longer ones are. A node covers the next six bits. One of its words says which of
//! the 64 children exist, which lie side by side; the other says which of the 63 prefixes of up to
//! five more bits do, whose next hops lie side by side too (Eatherton, Varghese, Dittia: Tree
//! Bitmap, 2004). A prefix is written in one place only, so a change writes few nodes wherever it
//! is.

use super::{FibChange, HopId};

/// Nodes that the table can hold.
pub const NODES: u32 = 1 << 21;
/// Bits of the address that a node covers.
pub(crate) const STRIDE: u32 = 6;
/// Cells in front of the nodes: one for each value of the first 16 bits.
pub(crate) const CELLS: usize = 1 << 16;

const CELL_BITS: u32 = 16;
/// No address has more levels: 112 bits, six at a time.
const LEVELS: usize = 19;

/// One node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Which children exist, by the next six bits.
    pub children: u64,
    /// Which prefixes exist: bit `2^length - 1 + bits` for `length` (0 to 5) more bits.
    pub prefixes: u64,
    /// Number of the first child; the others follow in order.
    pub first_child: u32,
    /// Number of the first prefix's next hop; the others follow in order.
    pub first_hop: u32,
}

impl Node {
    /// How many bits of `word` are set below `bit`.
    #[inline]
    pub(crate) const fn rank(word: u64, bit: u32) -> u32 {
        (word & ((1 << bit) - 1)).count_ones()
    }
}

/// The table. A node is three plain words, so that a table of zeros costs no memory before it is
/// used.
pub struct Fib6 {
    cell_hops: Box<[u16]>,
    cell_nodes: Box<[u32]>,
    nodes: Box<[[u64; 3]]>,
    hops: Box<[u16]>,
    /// Nodes and next hops from here on were never written.
    used: (usize, usize),
}

/// A lookup on its way down.
#[derive(Clone, Copy)]
struct Descent {
    /// What is left of the address, from the top.
    rest: u128,
    node: u32,
    /// Number of the longest prefix's next hop so far; zero: only the cell's.
    best: u32,
}

impl Fib6 {
    /// A table without routes. Its memory is mapped by the kernel as routes come.
    pub fn new() -> Self {
        Self {
            cell_hops: vec![0; CELLS].into(),
            cell_nodes: vec![0; CELLS].into(),
            nodes: vec![[0; 3]; NODES as usize].into(),
            hops: vec![0; NODES as usize].into(),
            used: (0, 0),
        }
    }

    /// The next hop of one address.
    pub fn lookup(&self, address: u128) -> HopId {
        let mut hop = [HopId::NONE];
        self.lookup_batch(&[address], &mut hop);
        hop[0]
    }

    /// The next hops of many addresses: `hops[i]` becomes that of `addresses[i]`, as far as both
    /// reach.
    ///
    /// All of a few go down together, a level at a time, so that their loads overlap.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[u128], hops: &mut [HopId]) {
        const TOGETHER: usize = 16;
        for (addresses, hops) in addresses.chunks(TOGETHER).zip(hops.chunks_mut(TOGETHER)) {
            let mut lanes = [Descent { rest: 0, node: 0, best: 0 }; TOGETHER];
            for (lane, address) in lanes.iter_mut().zip(addresses) {
                lane.rest = address << CELL_BITS;
                lane.node = self.cell_nodes[cell_of(*address)];
            }
            for _ in 0..LEVELS {
                let mut any = 0;
                for lane in lanes.iter_mut().take(addresses.len()) {
                    if lane.node != 0 {
                        self.descend(lane);
                        any |= lane.node;
                    }
                }
                if any == 0 {
                    break;
                }
            }
            for ((lane, address), hop) in lanes.iter().zip(addresses).zip(hops) {
                hop.0 = match lane.best {
                    0 => self.cell_hops[cell_of(*address)],
                    best => self.hops[best as usize],
                };
            }
        }
    }

    /// One level down.
    #[inline]
    fn descend(&self, lane: &mut Descent) {
        let node = self.node(lane.node);
        let bits = index_of(lane.rest);
        let matching = node.prefixes & MATCHING[bits as usize];
        if matching != 0 {
            // A longer prefix has a higher bit.
            lane.best = node.first_hop + Node::rank(node.prefixes, matching.ilog2());
        }
        lane.node = if node.children >> bits & 1 == 0 {
            0
        } else {
            node.first_child + Node::rank(node.children, bits)
        };
        lane.rest <<= STRIDE;
    }

    /// The node of that number.
    #[inline]
    pub(crate) fn node(&self, at: u32) -> Node {
        let [children, prefixes, firsts] = self.nodes[at as usize];
        Node { children, prefixes, first_child: (firsts >> 32) as u32, first_hop: firsts as u32 }
    }

    /// The next hop of that number.
    pub(crate) fn hop(&self, at: u32) -> HopId {
        HopId(self.hops[at as usize])
    }

    /// The node below which the longer prefixes of a cell are; zero: there are none.
    pub(crate) fn root(&self, cell: u16) -> u32 {
        self.cell_nodes[usize::from(cell)]
    }

    /// The next hop of prefixes of up to 16 bits in a cell.
    pub(crate) fn cell_hop(&self, cell: u16) -> HopId {
        HopId(self.cell_hops[usize::from(cell)])
    }

    /// Takes a step, if it is one of IPv6 routes.
    pub(crate) fn apply(&mut self, change: &FibChange) {
        match *change {
            FibChange::Fill16 { first, count, hop } => self.fill16(first, count, hop),
            FibChange::Root { cell, node } => self.set_root(cell, node),
            FibChange::Node { at, node } => self.set_node(at, node),
            FibChange::NodeHop { at, hop } => self.set_hop(at, hop),
            _ => {}
        }
    }

    fn fill16(&mut self, first: u16, count: u16, hop: HopId) {
        let first = usize::from(first);
        if let Some(places) = self.cell_hops.get_mut(first..first + usize::from(count)) {
            places.fill(hop.0);
        }
    }

    fn set_root(&mut self, cell: u16, node: u32) {
        self.cell_nodes[usize::from(cell)] = node;
    }

    fn set_node(&mut self, at: u32, node: Node) {
        let Node { children, prefixes, first_child, first_hop } = node;
        if let Some(place) = self.nodes.get_mut(at as usize) {
            *place = [children, prefixes, u64::from(first_child) << 32 | u64::from(first_hop)];
            self.used.0 = self.used.0.max(at as usize + 1);
        }
    }

    fn set_hop(&mut self, at: u32, hop: HopId) {
        if let Some(place) = self.hops.get_mut(at as usize) {
            *place = hop.0;
            self.used.1 = self.used.1.max(at as usize + 1);
        }
    }
}

impl Clone for Fib6 {
    /// Copies what has been written; the rest stays without memory.
    fn clone(&self) -> Self {
        let mut copy = Self::new();
        let (nodes, hops) = self.used;
        copy.cell_hops.copy_from_slice(&self.cell_hops);
        copy.cell_nodes.copy_from_slice(&self.cell_nodes);
        copy.nodes[..nodes].copy_from_slice(&self.nodes[..nodes]);
        copy.hops[..hops].copy_from_slice(&self.hops[..hops]);
        copy.used = self.used;
        copy
    }
}

impl Default for Fib6 {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Fib6 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fib6").field("used", &self.used).finish_non_exhaustive()
    }
}

#[inline]
const fn cell_of(address: u128) -> usize {
    (address >> (128 - CELL_BITS)) as usize
}

/// The next six bits of what is left of an address.
#[inline]
pub(crate) const fn index_of(rest: u128) -> u32 {
    (rest >> (128 - STRIDE)) as u32
}

/// For each value of six bits: the bits in [`Node::prefixes`] of the prefixes that match it.
const MATCHING: [u64; 64] = {
    let mut matching = [0; 64];
    let mut bits = 0;
    while bits < 64 {
        let mut length = 0;
        while length < STRIDE {
            matching[bits] |= 1 << ((1 << length) - 1 + (bits >> (STRIDE - length)));
            length += 1;
        }
        bits += 1;
    }
    matching
};
