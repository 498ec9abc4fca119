//! The way down the trie to a prefix.

use crate::fib::{Node, STRIDE, index_of};

/// Prefixes of up to this many bits are in the cells.
pub(super) const CELL_BITS: u8 = 16;

/// Where in the trie a prefix longer than /16 is.
pub(super) struct TriePath {
    /// The children on the way from the cell's node.
    way: [u32; 18],
    levels: usize,
    /// Its bit in the last one.
    pub(super) bit: u32,
}

impl TriePath {
    pub(super) fn of(address: u128, bits: u8) -> Self {
        let below = u32::from(bits - CELL_BITS);
        let mut rest = address << CELL_BITS;
        let mut way = [0; 18];
        // At most 112 bits are below the cell: 18 whole levels, and four bits in the last node.
        let levels = (below / STRIDE) as usize;
        for index in way.iter_mut().take(levels) {
            *index = index_of(rest);
            rest <<= STRIDE;
        }
        let length = below % STRIDE;
        let bit = (1 << length) - 1 + (index_of(rest) >> (STRIDE - length));
        Self { way, levels, bit }
    }

    pub(super) fn way(&self) -> &[u32] {
        &self.way[..self.levels]
    }
}

/// The child `index` of the node numbered `at`; number zero is no node and has none.
pub(super) fn child_of(at: u32, node: &Node, index: u32) -> Option<u32> {
    (at != 0 && node.children >> index & 1 != 0)
        .then(|| node.first_child + Node::rank(node.children, index))
}
