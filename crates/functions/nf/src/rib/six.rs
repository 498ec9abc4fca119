//! IPv6 routes, and which nodes of the trie a change of one writes.
//!
//! The trie itself is the memory of the routes; this side has a copy of it and does to it what it
//! tells the data threads to do. Children (and next hops) of a node lie side by side, so one more
//! of them means a new place for all: that is written first, and then the node that names it. After
//! each step the trie is whole.

use std::collections::BTreeMap;

use super::RibError;
use super::blocks::Blocks;
use crate::fib::{CELLS, Fib6, FibChange, HopId, NODES, Node, STRIDE, index_of};
use crate::prefix::mask6;

/// Prefixes of up to this many bits are in the cells.
const CELL_BITS: u8 = 16;

/// All routes.
#[derive(Debug)]
pub(super) struct Routes6 {
    /// Up to /16, by (address, bits).
    short: BTreeMap<(u128, u8), HopId>,
    table: Fib6,
    nodes: Blocks,
    hops: Blocks,
    /// Routes in the trie.
    long: usize,
}

impl Default for Routes6 {
    fn default() -> Self {
        Self {
            short: BTreeMap::new(),
            table: Fib6::new(),
            nodes: Blocks::new(NODES),
            hops: Blocks::new(NODES),
            long: 0,
        }
    }
}

impl Routes6 {
    pub(super) fn table(&self) -> &Fib6 {
        &self.table
    }

    pub(super) fn len(&self) -> usize {
        self.short.len() + self.long
    }

    pub(super) fn get(&self, address: u128, bits: u8) -> Option<HopId> {
        if bits <= CELL_BITS {
            return self.short.get(&(address, bits)).copied();
        }
        let place = TriePath::of(address, bits);
        let mut at = self.table.root(cell_of(address));
        for &index in place.way() {
            at = child_of(at, &self.table.node(at), index)?;
        }
        let node = self.table.node(at);
        (node.prefixes >> place.bit & 1 != 0)
            .then(|| self.table.hop(node.first_hop + Node::rank(node.prefixes, place.bit)))
    }

    /// Takes a route and says what that writes; what it replaces.
    pub(super) fn set(
        &mut self,
        address: u128,
        bits: u8,
        hop: HopId,
        emit: &mut dyn FnMut(FibChange),
    ) -> Result<Option<HopId>, RibError> {
        if bits <= CELL_BITS {
            let replaced = self.short.insert((address, bits), hop);
            self.spread(address, bits, hop, emit);
            return Ok(replaced);
        }
        if !self.nodes.has_room() || !self.hops.has_room() {
            return Err(RibError::Nodes);
        }
        let place = TriePath::of(address, bits);
        let cell = cell_of(address);
        let mut at = self.table.root(cell);
        if at == 0 {
            at = self.nodes.take(1).ok_or(RibError::Nodes)?;
            self.write(FibChange::Node { at, node: Node::default() }, emit);
            self.write(FibChange::Root { cell, node: at }, emit);
        }
        for &index in place.way() {
            at = match child_of(at, &self.table.node(at), index) {
                Some(child) => child,
                None => self.add_child(at, index, emit)?,
            };
        }
        self.put(at, place.bit, hop, emit)
    }

    /// Removes a route and says what that writes; what it was.
    pub(super) fn remove(
        &mut self,
        address: u128,
        bits: u8,
        emit: &mut dyn FnMut(FibChange),
    ) -> Result<Option<HopId>, RibError> {
        if bits <= CELL_BITS {
            let Some(removed) = self.short.remove(&(address, bits)) else { return Ok(None) };
            let cover = (0..bits)
                .rev()
                .find_map(|bits| self.short.get(&(address & mask6(bits), bits)).copied());
            self.spread(address, bits, cover.unwrap_or(HopId::NONE), emit);
            return Ok(Some(removed));
        }
        let Some(removed) = self.get(address, bits) else { return Ok(None) };
        let place = TriePath::of(address, bits);
        let cell = cell_of(address);
        // The nodes from the cell to the route, so that those that are then empty can go.
        let mut parents = Vec::with_capacity(place.way().len());
        let mut at = self.table.root(cell);
        for &index in place.way() {
            parents.push((at, index));
            let Some(child) = child_of(at, &self.table.node(at), index) else { return Ok(None) };
            at = child;
        }
        self.cut(at, place.bit, emit)?;
        while let node = self.table.node(at)
            && node.children == 0
            && node.prefixes == 0
        {
            let Some((parent, index)) = parents.pop() else {
                self.write(FibChange::Root { cell, node: 0 }, emit);
                self.nodes.give(at, 1);
                break;
            };
            // Without room for the others' new place the empty node stays, which harms nobody.
            if self.remove_child(parent, index, emit).is_err() {
                break;
            }
            at = parent;
        }
        Ok(Some(removed))
    }

    /// Does a step here, and hands it over for the data threads.
    fn write(&mut self, change: FibChange, emit: &mut dyn FnMut(FibChange)) {
        self.table.apply(&change);
        emit(change);
    }

    /// Gives the node at `at` an empty child; its number.
    fn add_child(
        &mut self,
        at: u32,
        index: u32,
        emit: &mut dyn FnMut(FibChange),
    ) -> Result<u32, RibError> {
        let node = self.table.node(at);
        let (count, rank) = (node.children.count_ones(), Node::rank(node.children, index));
        let first_child = self.nodes.take(count + 1).ok_or(RibError::Nodes)?;
        for child in 0..count {
            let moved = self.table.node(node.first_child + child);
            let to = first_child + child + u32::from(child >= rank);
            self.write(FibChange::Node { at: to, node: moved }, emit);
        }
        self.write(FibChange::Node { at: first_child + rank, node: Node::default() }, emit);
        let children = node.children | 1 << index;
        self.write(FibChange::Node { at, node: Node { children, first_child, ..node } }, emit);
        if count > 0 {
            self.nodes.give(node.first_child, count);
        }
        Ok(first_child + rank)
    }

    /// Takes a child from the node at `at`.
    fn remove_child(
        &mut self,
        at: u32,
        index: u32,
        emit: &mut dyn FnMut(FibChange),
    ) -> Result<(), RibError> {
        let node = self.table.node(at);
        let (count, rank) = (node.children.count_ones(), Node::rank(node.children, index));
        let first_child = match count {
            1 => 0,
            _ => self.nodes.take(count - 1).ok_or(RibError::Nodes)?,
        };
        for child in (0..count).filter(|child| *child != rank) {
            let moved = self.table.node(node.first_child + child);
            let to = first_child + child - u32::from(child > rank);
            self.write(FibChange::Node { at: to, node: moved }, emit);
        }
        let children = node.children & !(1 << index);
        self.write(FibChange::Node { at, node: Node { children, first_child, ..node } }, emit);
        self.nodes.give(node.first_child, count);
        Ok(())
    }

    /// Gives the node at `at` a prefix; the next hop that it replaces.
    fn put(
        &mut self,
        at: u32,
        bit: u32,
        hop: HopId,
        emit: &mut dyn FnMut(FibChange),
    ) -> Result<Option<HopId>, RibError> {
        let node = self.table.node(at);
        let (count, rank) = (node.prefixes.count_ones(), Node::rank(node.prefixes, bit));
        if node.prefixes >> bit & 1 != 0 {
            let place = node.first_hop + rank;
            let replaced = self.table.hop(place);
            self.write(FibChange::NodeHop { at: place, hop }, emit);
            return Ok(Some(replaced));
        }
        let first_hop = self.hops.take(count + 1).ok_or(RibError::Nodes)?;
        for other in 0..count {
            let moved = self.table.hop(node.first_hop + other);
            let to = first_hop + other + u32::from(other >= rank);
            self.write(FibChange::NodeHop { at: to, hop: moved }, emit);
        }
        self.write(FibChange::NodeHop { at: first_hop + rank, hop }, emit);
        let prefixes = node.prefixes | 1 << bit;
        self.write(FibChange::Node { at, node: Node { prefixes, first_hop, ..node } }, emit);
        if count > 0 {
            self.hops.give(node.first_hop, count);
        }
        self.long += 1;
        Ok(None)
    }

    /// Takes a prefix from the node at `at`.
    fn cut(&mut self, at: u32, bit: u32, emit: &mut dyn FnMut(FibChange)) -> Result<(), RibError> {
        let node = self.table.node(at);
        let (count, rank) = (node.prefixes.count_ones(), Node::rank(node.prefixes, bit));
        let first_hop = match count {
            1 => 0,
            _ => self.hops.take(count - 1).ok_or(RibError::Nodes)?,
        };
        for other in (0..count).filter(|other| *other != rank) {
            let moved = self.table.hop(node.first_hop + other);
            let to = first_hop + other - u32::from(other > rank);
            self.write(FibChange::NodeHop { at: to, hop: moved }, emit);
        }
        let prefixes = node.prefixes & !(1 << bit);
        self.write(FibChange::Node { at, node: Node { prefixes, first_hop, ..node } }, emit);
        self.hops.give(node.first_hop, count);
        self.long -= 1;
        Ok(())
    }

    /// Gives `hop` to the cells of the prefix that no longer one of those up to /16 has.
    fn spread(&mut self, address: u128, bits: u8, hop: HopId, emit: &mut dyn FnMut(FibChange)) {
        let end = cell_end(address, bits);
        let mut next = usize::from(cell_of(address));
        let mut gaps = Vec::new();
        let within = (address, bits)..=(address | !mask6(bits), CELL_BITS);
        for &(inner, inner_bits) in self.short.range(within).map(|(key, _)| key) {
            let first = usize::from(cell_of(inner));
            if inner_bits == bits || first < next {
                continue;
            }
            gaps.push((next, first));
            next = cell_end(inner, inner_bits);
        }
        gaps.push((next, end));
        for (first, end) in gaps {
            let piece = usize::from(FibChange::ENTRIES_MAX);
            for first in (first..end).step_by(piece) {
                let count = piece.min(end - first) as u16;
                self.write(FibChange::Fill16 { first: first as u16, count, hop }, emit);
            }
        }
    }
}

/// Where in the trie a prefix longer than /16 is.
struct TriePath {
    /// The children on the way from the cell's node.
    way: [u32; 18],
    levels: usize,
    /// Its bit in the last one.
    bit: u32,
}

impl TriePath {
    fn of(address: u128, bits: u8) -> Self {
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

    fn way(&self) -> &[u32] {
        &self.way[..self.levels]
    }
}

/// The child `index` of the node numbered `at`; number zero is no node and has none.
fn child_of(at: u32, node: &Node, index: u32) -> Option<u32> {
    (at != 0 && node.children >> index & 1 != 0)
        .then(|| node.first_child + Node::rank(node.children, index))
}

const fn cell_of(address: u128) -> u16 {
    (address >> 112) as u16
}

/// The cell behind those of a prefix of up to 16 bits.
const fn cell_end(address: u128, bits: u8) -> usize {
    cell_of(address) as usize + (CELLS >> bits)
}
