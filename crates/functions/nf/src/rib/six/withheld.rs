//! IPv6 routes that found no room, and the cells to which nothing is forwarded because of that.

use std::collections::BTreeMap;

use crate::fib::{FibChange, HopId};

/// Routes that found no room, by cell.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    cells: BTreeMap<u16, BTreeMap<(u128, u8), HopId>>,
}

impl Withheld {
    pub(super) fn len(&self) -> usize {
        self.cells.values().map(BTreeMap::len).sum()
    }

    pub(super) fn has_cell(&self, cell: u16) -> bool {
        self.cells.contains_key(&cell)
    }

    pub(super) fn get(&self, cell: u16, key: (u128, u8)) -> Option<HopId> {
        self.cells.get(&cell)?.get(&key).copied()
    }

    /// Notes a route; what it replaces, and whether its cell had none before.
    pub(super) fn insert(
        &mut self,
        cell: u16,
        key: (u128, u8),
        hop: HopId,
    ) -> (Option<HopId>, bool) {
        let routes = self.cells.entry(cell).or_default();
        let is_first = routes.is_empty();
        (routes.insert(key, hop), is_first)
    }

    /// Forgets a route; what it was, and whether its cell has none any more.
    pub(super) fn remove(&mut self, cell: u16, key: (u128, u8)) -> Option<(HopId, bool)> {
        let routes = self.cells.get_mut(&cell)?;
        let hop = routes.remove(&key)?;
        let is_last = routes.is_empty();
        if is_last {
            self.cells.remove(&cell);
        }
        Some((hop, is_last))
    }

    /// Any one of them.
    pub(super) fn first(&self) -> Option<(u16, (u128, u8), HopId)> {
        let (cell, routes) = self.cells.first_key_value()?;
        let (key, hop) = routes.first_key_value()?;
        Some((*cell, *key, *hop))
    }

    pub(super) fn each(&self, each: &mut dyn FnMut(u128, u8, HopId)) {
        for ((address, bits), hop) in self.cells.values().flatten() {
            each(*address, *bits, *hop);
        }
    }

    /// Their cells.
    pub(super) fn cells(&self) -> impl Iterator<Item = u16> {
        self.cells.keys().copied()
    }

    /// Passes on what of a step the data threads may know: nothing of the cells that are withheld.
    pub(super) fn filter(&self, change: FibChange, emit: &mut dyn FnMut(FibChange)) {
        match change {
            FibChange::Root { cell, .. } if self.has_cell(cell) => {}
            FibChange::Fill16 { first, count, hop } => {
                let end = u32::from(first) + u32::from(count);
                let mut next = u32::from(first);
                let mut fill = |from: u32, to: u32| {
                    if from < to {
                        let (first, count) = (from as u16, (to - from) as u16);
                        emit(FibChange::Fill16 { first, count, hop });
                    }
                };
                for (cell, _) in
                    self.cells.range(first..).take_while(|(cell, _)| u32::from(**cell) < end)
                {
                    fill(next, u32::from(*cell));
                    next = u32::from(*cell) + 1;
                }
                fill(next, end);
            }
            change => emit(change),
        }
    }
}
