//! IPv6 routes, and which nodes of the trie a change of one writes.
//!
//! The trie itself is the memory of the routes; this side has a copy of it and does to it what it
//! tells the data threads to do. Children (and next hops) of a node lie side by side, so one more
//! of them means a new place for all: that is written first, and then the node that names it. After
//! each step the trie is whole.
//!
//! A route that finds no room is known but withheld, and with it its whole cell: by the shorter
//! prefixes that did find room its packets would go to the wrong router. It is tried again when a
//! route goes.

mod nodes;
mod path;
mod withheld;

use std::collections::BTreeMap;

use super::RibError;
use super::blocks::Blocks;
use crate::fib::{CELLS, Fib6, FibChange, HopId, NODES, Node};
use crate::prefix::mask6;
use path::{CELL_BITS, TriePath, child_of};
use withheld::Withheld;

/// What one new route can take: a run of children on each level, and one of next hops.
const RUNS_A_ROUTE: u32 = 20;

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
    withheld: Withheld,
}

impl Default for Routes6 {
    fn default() -> Self {
        Self::with_nodes(NODES)
    }
}

impl Routes6 {
    /// No routes, and room for `limit` nodes, and next hops in them, at most [`NODES`].
    pub(super) fn with_nodes(limit: u32) -> Self {
        let limit = limit.min(NODES);
        Self {
            short: BTreeMap::new(),
            table: Fib6::new(),
            nodes: Blocks::new(limit),
            hops: Blocks::new(limit),
            long: 0,
            withheld: Withheld::default(),
        }
    }

    /// The table as data threads have it.
    pub(super) fn table(&self) -> Fib6 {
        let mut table = self.table.clone();
        for cell in self.withheld.cells() {
            withhold(cell, &mut |change| table.apply(&change));
        }
        table
    }

    /// Routes that found no room.
    pub(super) fn withheld(&self) -> usize {
        self.withheld.len()
    }

    pub(super) fn len(&self) -> usize {
        self.short.len() + self.long + self.withheld.len()
    }

    pub(super) fn get(&self, address: u128, bits: u8) -> Option<HopId> {
        if bits <= CELL_BITS {
            return self.short.get(&(address, bits)).copied();
        }
        let withheld = self.withheld.get(cell_of(address), (address, bits));
        withheld.or_else(|| self.get_placed(address, bits))
    }

    pub(super) fn each(&self, each: &mut dyn FnMut(u128, u8, HopId)) {
        for ((address, bits), hop) in &self.short {
            each(*address, *bits, *hop);
        }
        self.withheld.each(each);
        for cell in 0..=u16::MAX {
            let root = self.table.root(cell);
            if root != 0 {
                self.each_below(root, u128::from(cell) << 112, CELL_BITS, each);
            }
        }
    }

    /// The same of a route longer than /16 that found room.
    fn get_placed(&self, address: u128, bits: u8) -> Option<HopId> {
        let place = TriePath::of(address, bits);
        let mut at = self.table.root(cell_of(address));
        for &index in place.way() {
            at = child_of(at, &self.table.node(at), index)?;
        }
        let node = self.table.node(at);
        (node.prefixes >> place.bit & 1 != 0)
            .then(|| self.table.hop(node.first_hop + Node::rank(node.prefixes, place.bit)))
    }

    /// Takes a route and says what that writes; what it replaces. An error: it is known, but
    /// nothing is forwarded to its cell until there is room.
    pub(super) fn set(
        &mut self,
        address: u128,
        bits: u8,
        hop: HopId,
        emit: &mut dyn FnMut(FibChange),
    ) -> (Option<HopId>, Result<(), RibError>) {
        if bits <= CELL_BITS {
            let replaced = self.short.insert((address, bits), hop);
            self.spread(address, bits, hop, emit);
            return (replaced, Ok(()));
        }
        let (cell, key) = (cell_of(address), (address, bits));
        let is_withheld = self.withheld.get(cell, key).is_some();
        if !is_withheld && let Some(replaced) = self.insert(address, bits, hop, emit) {
            return (replaced, Ok(()));
        }
        let (replaced, is_first) = self.withheld.insert(cell, key, hop);
        if is_first {
            withhold(cell, emit);
        }
        (replaced, Err(RibError::Nodes))
    }

    /// Puts a route into the trie; nothing when there is no room, else what it replaces.
    fn insert(
        &mut self,
        address: u128,
        bits: u8,
        hop: HopId,
        emit: &mut dyn FnMut(FibChange),
    ) -> Option<Option<HopId>> {
        let is_new = self.get_placed(address, bits).is_none();
        if is_new && !(self.nodes.has_room_for(RUNS_A_ROUTE) && self.hops.has_room_for(1)) {
            return None;
        }
        let place = TriePath::of(address, bits);
        let cell = cell_of(address);
        let mut at = self.table.root(cell);
        if at == 0 {
            at = self.nodes.take(1)?;
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
    ) -> Option<HopId> {
        if bits <= CELL_BITS {
            let removed = self.short.remove(&(address, bits))?;
            let cover = (0..bits)
                .rev()
                .find_map(|bits| self.short.get(&(address & mask6(bits), bits)).copied());
            self.spread(address, bits, cover.unwrap_or(HopId::NONE), emit);
            return Some(removed);
        }
        let cell = cell_of(address);
        if let Some((removed, is_last)) = self.withheld.remove(cell, (address, bits)) {
            if is_last {
                self.show(cell, emit);
            }
            return Some(removed);
        }
        let removed = self.get_placed(address, bits)?;
        let place = TriePath::of(address, bits);
        // The nodes from the cell to the route, so that those that are then empty can go.
        let mut parents = Vec::with_capacity(place.way().len());
        let mut at = self.table.root(cell);
        for &index in place.way() {
            parents.push((at, index));
            at = child_of(at, &self.table.node(at), index)?;
        }
        self.cut(cell, at, place.bit, emit);
        while let node = self.table.node(at)
            && node.children == 0
            && node.prefixes == 0
        {
            let Some((parent, index)) = parents.pop() else {
                self.write(FibChange::Root { cell, node: 0 }, emit);
                self.nodes.give(at, 1);
                break;
            };
            self.remove_child(cell, parent, index, emit);
            at = parent;
        }
        self.place_withheld(emit);
        Some(removed)
    }

    /// Puts routes that were withheld where there is room now.
    fn place_withheld(&mut self, emit: &mut dyn FnMut(FibChange)) {
        while let Some((cell, (address, bits), hop)) = self.withheld.first() {
            // While its cell is withheld, what is written there does not show.
            if self.insert(address, bits, hop, emit).is_none() {
                return;
            }
            if let Some((_, true)) = self.withheld.remove(cell, (address, bits)) {
                self.show(cell, emit);
            }
        }
    }

    /// Lets the data threads see a cell that was withheld.
    fn show(&self, cell: u16, emit: &mut dyn FnMut(FibChange)) {
        emit(FibChange::Root { cell, node: self.table.root(cell) });
        emit(FibChange::Fill16 { first: cell, count: 1, hop: self.table.cell_hop(cell) });
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

/// Takes a cell from the data threads: what is for it is dropped.
fn withhold(cell: u16, emit: &mut dyn FnMut(FibChange)) {
    emit(FibChange::Fill16 { first: cell, count: 1, hop: HopId::NO_ROOM });
    emit(FibChange::Root { cell, node: 0 });
}

const fn cell_of(address: u128) -> u16 {
    (address >> 112) as u16
}

/// The cell behind those of a prefix of up to 16 bits.
const fn cell_end(address: u128, bits: u8) -> usize {
    cell_of(address) as usize + (CELLS >> bits)
}
