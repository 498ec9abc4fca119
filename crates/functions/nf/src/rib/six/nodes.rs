//! Nodes that get and lose children and prefixes, step by step.

use super::path::child_of;
use super::{Routes6, withhold};
use crate::fib::{FibChange, HopId, Node, STRIDE};

impl Routes6 {
    /// Does a step here, and hands it over for the data threads.
    pub(super) fn write(&mut self, change: FibChange, emit: &mut dyn FnMut(FibChange)) {
        self.table.apply(&change);
        self.withheld.filter(change, emit);
    }

    /// Passes on the routes of the node at `at` and of those below it; `address` has the bits that
    /// lead there, of which there are `bits`. No deeper than an address is long.
    pub(super) fn each_below(
        &self,
        at: u32,
        address: u128,
        bits: u8,
        each: &mut dyn FnMut(u128, u8, HopId),
    ) {
        let node = self.table.node(at);
        for length in 0..STRIDE {
            for value in 0..1u32 << length {
                let bit = (1 << length) - 1 + value;
                if node.prefixes >> bit & 1 != 0 {
                    let hop = self.table.hop(node.first_hop + Node::rank(node.prefixes, bit));
                    let bits = bits + length as u8;
                    let below = u128::from(value).checked_shl(128 - u32::from(bits)).unwrap_or(0);
                    each(address | below, bits, hop);
                }
            }
        }
        for index in 0..1 << STRIDE {
            if let Some(child) = child_of(at, &node, index) {
                // The last level has four bits of an address, and no children.
                let Some(shift) = (128 - u32::from(bits)).checked_sub(STRIDE) else { return };
                let below = u128::from(index) << shift;
                self.each_below(child, address | below, bits + STRIDE as u8, each);
            }
        }
    }

    /// Gives the node at `at` an empty child; its number.
    pub(super) fn add_child(
        &mut self,
        at: u32,
        index: u32,
        emit: &mut dyn FnMut(FibChange),
    ) -> Option<u32> {
        let node = self.table.node(at);
        let (count, rank) = (node.children.count_ones(), Node::rank(node.children, index));
        let first_child = self.nodes.take(count + 1)?;
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
        Some(first_child + rank)
    }

    /// Takes a child from the node at `at`, which is below `cell`.
    pub(super) fn remove_child(
        &mut self,
        cell: u16,
        at: u32,
        index: u32,
        emit: &mut dyn FnMut(FibChange),
    ) {
        let node = self.table.node(at);
        let (count, rank) = (node.children.count_ones(), Node::rank(node.children, index));
        let fresh = if count > 1 { self.nodes.take(count - 1) } else { Some(0) };
        let first_child = fresh.unwrap_or(node.first_child);
        if fresh.is_none() {
            // Where they are: nobody may look meanwhile.
            self.withhold_for_now(cell, emit);
        }
        for child in (0..count).filter(|child| *child != rank) {
            let moved = self.table.node(node.first_child + child);
            let to = first_child + child - u32::from(child > rank);
            self.write(FibChange::Node { at: to, node: moved }, emit);
        }
        let children = node.children & !(1 << index);
        self.write(FibChange::Node { at, node: Node { children, first_child, ..node } }, emit);
        if fresh.is_some() {
            self.nodes.give(node.first_child, count);
        } else {
            self.nodes.shorten(first_child, count, count - 1);
            self.show_again(cell, emit);
        }
    }

    /// Gives the node at `at` a prefix; nothing without room, else the next hop that it replaces.
    pub(super) fn put(
        &mut self,
        at: u32,
        bit: u32,
        hop: HopId,
        emit: &mut dyn FnMut(FibChange),
    ) -> Option<Option<HopId>> {
        let node = self.table.node(at);
        let (count, rank) = (node.prefixes.count_ones(), Node::rank(node.prefixes, bit));
        if node.prefixes >> bit & 1 != 0 {
            let place = node.first_hop + rank;
            let replaced = self.table.hop(place);
            self.write(FibChange::NodeHop { at: place, hop }, emit);
            return Some(Some(replaced));
        }
        let first_hop = self.hops.take(count + 1)?;
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
        Some(None)
    }

    /// Takes a prefix from the node at `at`, which is below `cell`.
    pub(super) fn cut(&mut self, cell: u16, at: u32, bit: u32, emit: &mut dyn FnMut(FibChange)) {
        let node = self.table.node(at);
        let (count, rank) = (node.prefixes.count_ones(), Node::rank(node.prefixes, bit));
        let fresh = if count > 1 { self.hops.take(count - 1) } else { Some(0) };
        let first_hop = fresh.unwrap_or(node.first_hop);
        if fresh.is_none() {
            self.withhold_for_now(cell, emit);
        }
        for other in (0..count).filter(|other| *other != rank) {
            let moved = self.table.hop(node.first_hop + other);
            let to = first_hop + other - u32::from(other > rank);
            self.write(FibChange::NodeHop { at: to, hop: moved }, emit);
        }
        let prefixes = node.prefixes & !(1 << bit);
        self.write(FibChange::Node { at, node: Node { prefixes, first_hop, ..node } }, emit);
        if fresh.is_some() {
            self.hops.give(node.first_hop, count);
        } else {
            self.hops.shorten(first_hop, count, count - 1);
            self.show_again(cell, emit);
        }
        self.long -= 1;
    }

    /// Takes a cell from the data threads while its nodes are written where they are. Packets of a
    /// batch in between are dropped, which is better than to go wrong.
    fn withhold_for_now(&self, cell: u16, emit: &mut dyn FnMut(FibChange)) {
        if !self.withheld.has_cell(cell) {
            withhold(cell, emit);
        }
    }

    /// Gives it back to them.
    fn show_again(&self, cell: u16, emit: &mut dyn FnMut(FibChange)) {
        if !self.withheld.has_cell(cell) {
            self.show(cell, emit);
        }
    }
}
