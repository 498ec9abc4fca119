//! IPv4 routes, and which entries of DIR-24-8 a change of one writes.
//!
//! A route decides about the addresses of its prefix that no longer prefix has. In the order of
//! (address, bits) a prefix stands right before all prefixes within it, so what is left of it is
//! found in one walk.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use super::RibError;
use crate::fib::{Fib4, FibChange, HopId, LONG_GROUPS};
use crate::prefix::mask4;

/// Prefixes of fewer bits are kept apart.
const FIRST_BITS: u8 = 8;
/// Longer prefixes are in groups.
const SLOT_BITS: u8 = 24;

/// Routes by (address, bits).
type Routes = BTreeMap<(u32, u8), HopId>;

/// All routes.
#[derive(Debug)]
pub(super) struct Routes4 {
    /// Up to /7.
    short: Routes,
    /// From /8 on.
    routes: Routes,
    /// /24 networks with longer prefixes.
    groups: BTreeMap<u32, Group>,
    /// Those of them that found no room: nothing is forwarded to them.
    withheld: BTreeSet<u32>,
    /// Groups that are free again, the first one that was never used, and how many there are.
    free: Vec<u16>,
    next: u16,
    limit: u16,
}

/// A /24 network with longer prefixes.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Its group in the tables, if there was one left.
    number: Option<u16>,
    /// How many longer prefixes there are.
    prefixes: u16,
}

impl Default for Routes4 {
    fn default() -> Self {
        Self::with_groups(LONG_GROUPS)
    }
}

impl Routes4 {
    /// No routes, and room for `limit` groups, at most [`LONG_GROUPS`].
    pub(super) fn with_groups(limit: u16) -> Self {
        Self {
            short: Routes::new(),
            routes: Routes::new(),
            groups: BTreeMap::new(),
            withheld: BTreeSet::new(),
            free: Vec::new(),
            next: 0,
            limit: limit.min(LONG_GROUPS),
        }
    }

    /// Routes longer than /24 that found no room.
    pub(super) fn withheld(&self) -> usize {
        let prefixes = |slot| self.groups.get(slot).map_or(0, |group| usize::from(group.prefixes));
        self.withheld.iter().map(prefixes).sum()
    }

    pub(super) fn get(&self, address: u32, bits: u8) -> Option<HopId> {
        self.of(bits).get(&(address, bits)).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.short.len() + self.routes.len()
    }

    pub(super) fn each(&self, each: &mut dyn FnMut(u32, u8, HopId)) {
        for ((address, bits), hop) in self.short.iter().chain(&self.routes) {
            each(*address, *bits, *hop);
        }
    }

    fn of(&self, bits: u8) -> &Routes {
        if bits < FIRST_BITS { &self.short } else { &self.routes }
    }

    /// Takes a route without writing any table; what it replaces. An error: it is known, but
    /// nothing is forwarded to its /24 network until there is room.
    pub(super) fn insert(
        &mut self,
        address: u32,
        bits: u8,
        hop: HopId,
    ) -> (Option<HopId>, Result<(), RibError>) {
        if bits < FIRST_BITS {
            return (self.short.insert((address, bits), hop), Ok(()));
        }
        let replaced = self.routes.insert((address, bits), hop);
        if bits <= SLOT_BITS {
            return (replaced, Ok(()));
        }
        let slot = address >> 8;
        let group = match self.groups.get(&slot) {
            Some(group) => *group,
            None => Group { number: self.take_group(), prefixes: 0 },
        };
        if group.number.is_none() {
            self.withheld.insert(slot);
        }
        let prefixes = group.prefixes + u16::from(replaced.is_none());
        self.groups.insert(slot, Group { prefixes, ..group });
        (replaced, group.number.map(drop).ok_or(RibError::LongPrefixes))
    }

    /// Takes a route and says what that writes; otherwise as [`Self::insert`].
    pub(super) fn set(
        &mut self,
        address: u32,
        bits: u8,
        hop: HopId,
        emit: &mut dyn FnMut(FibChange),
    ) -> (Option<HopId>, Result<(), RibError>) {
        let slot = address >> 8;
        let was_extended = self.groups.contains_key(&slot);
        let done = self.insert(address, bits, hop);
        if bits < FIRST_BITS {
            self.spread_short(address, bits, hop, emit);
            return done;
        }
        if let Some(group) = self.groups.get(&slot)
            && !was_extended
        {
            match group.number {
                // First what the network had as a whole, so that the tables are right after each
                // step.
                Some(group) => {
                    let before = self.cover(slot << 8, SLOT_BITS + 1);
                    emit(FibChange::Fill8 { group, first: 0, count: 256, hop: before });
                    emit(FibChange::Extend { slot, group });
                }
                None => emit(FibChange::Fill24 { first: slot, count: 1, hop: HopId::NO_ROOM }),
            }
        }
        self.spread(address, bits, hop, emit);
        done
    }

    /// Removes a route and says what that writes; what it was.
    pub(super) fn remove(
        &mut self,
        address: u32,
        bits: u8,
        emit: &mut dyn FnMut(FibChange),
    ) -> Option<HopId> {
        if bits < FIRST_BITS {
            let removed = self.short.remove(&(address, bits))?;
            let cover = longest(&self.short, address, 0..bits);
            self.spread_short(address, bits, cover, emit);
            return Some(removed);
        }
        let removed = self.routes.remove(&(address, bits))?;
        let slot = address >> 8;
        if bits > SLOT_BITS
            && let Some(group) = self.groups.get_mut(&slot)
        {
            group.prefixes -= 1;
            if group.prefixes == 0 {
                let number = group.number;
                self.groups.remove(&slot);
                self.withheld.remove(&slot);
                let hop = self.cover(slot << 8, SLOT_BITS + 1);
                emit(FibChange::Fill24 { first: slot, count: 1, hop });
                if let Some(number) = number {
                    self.free.push(number);
                    self.place_withheld(emit);
                }
                return Some(removed);
            }
        }
        let cover = self.cover(address, bits);
        self.spread(address, bits, cover, emit);
        Some(removed)
    }

    /// Writes all routes into an empty table.
    pub(super) fn fill(&self, table: &mut Fib4) {
        for ((address, bits), hop) in &self.short {
            let first = address >> 24;
            let count = 1 << (FIRST_BITS - bits);
            table.fill7(first as u8, count, *hop);
        }
        // A prefix comes before those within it, which then overwrite their part.
        for ((address, bits), hop) in &self.routes {
            let slot = address >> 8;
            if *bits <= SLOT_BITS {
                pieces(slot, slot + (1 << (SLOT_BITS - bits)) - 1, &mut |first, count| {
                    table.fill24(first, count, *hop);
                });
            } else if let Some(group) = self.groups.get(&slot).and_then(|group| group.number) {
                if let Some(whole) = table.whole(slot) {
                    table.fill8(group, 0, 256, whole);
                    table.extend(slot, group);
                }
                table.fill8(group, *address as u8, 1 << (32 - bits), *hop);
            } else {
                table.fill24(slot, 1, HopId::NO_ROOM);
            }
        }
    }

    fn take_group(&mut self) -> Option<u16> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        if self.next == self.limit {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Gives a free group to a network that waits for one: filled first, and then in force.
    fn place_withheld(&mut self, emit: &mut dyn FnMut(FibChange)) {
        let Some(slot) = self.withheld.pop_first() else { return };
        let (Some(number), Some(group)) = (self.take_group(), self.groups.get_mut(&slot)) else {
            return;
        };
        group.number = Some(number);
        let first = slot << 8;
        let hop = self.cover(first, SLOT_BITS + 1);
        emit(FibChange::Fill8 { group: number, first: 0, count: 256, hop });
        for ((address, bits), hop) in self.routes.range((first, SLOT_BITS + 1)..=(first | 0xff, 32))
        {
            let count = 1 << (32 - bits);
            emit(FibChange::Fill8 { group: number, first: *address as u8, count, hop: *hop });
        }
        emit(FibChange::Extend { slot, group: number });
    }

    /// The next hop of the longest prefix of less than `bits` bits that has `address`, those apart
    /// left out.
    fn cover(&self, address: u32, bits: u8) -> HopId {
        longest(&self.routes, address, FIRST_BITS..bits)
    }

    /// Gives `hop` to the addresses of the prefix that no longer one has.
    fn spread(&self, address: u32, bits: u8, hop: HopId, emit: &mut dyn FnMut(FibChange)) {
        // One walk over the groups beside that over the gaps: a search for each gap of a /8 took
        // longer than all else.
        let last = address | !mask4(bits);
        let mut groups = self.groups.range(address >> 8..=last >> 8).peekable();
        walk_gaps(&self.routes, address, bits, &mut |first, last| {
            fill_range(&mut groups, first, last, hop, emit);
        });
    }

    /// The same for prefixes up to /7: they end at octets.
    fn spread_short(&self, address: u32, bits: u8, hop: HopId, emit: &mut dyn FnMut(FibChange)) {
        walk_gaps(&self.short, address, bits, &mut |first, last| {
            let (first, last) = ((first >> 24) as u8, (last >> 24) as u8);
            let count = u16::from(last) - u16::from(first) + 1;
            emit(FibChange::Fill7 { first, count, hop });
        });
    }
}

/// Gives `hop` to all addresses from `first` to `last`. Where these do not end at a /24 network,
/// that network has a group. Of `groups` those are taken that end before `last`.
fn fill_range(
    groups: &mut Peekable<Range<'_, u32, Group>>,
    first: u32,
    last: u32,
    hop: HopId,
    emit: &mut dyn FnMut(FibChange),
) {
    let (mut slot, last_slot) = (first >> 8, last >> 8);
    while let Some(&(&extended, group)) = groups.peek()
        && extended <= last_slot
    {
        if extended >= slot {
            if extended > slot {
                pieces(slot, extended - 1, &mut |first, count| {
                    emit(FibChange::Fill24 { first, count, hop });
                });
            }
            let from = first.max(extended << 8);
            let to = last.min(extended << 8 | 0xff);
            let count = (to - from + 1) as u16;
            if let Some(group) = group.number {
                emit(FibChange::Fill8 { group, first: from as u8, count, hop });
            }
            slot = extended + 1;
            // The next run may begin in this one.
            if to != extended << 8 | 0xff {
                break;
            }
        }
        groups.next();
    }
    if slot <= last_slot {
        pieces(slot, last_slot, &mut |first, count| {
            emit(FibChange::Fill24 { first, count, hop });
        });
    }
}

/// Cuts the networks from `first` to `last` into pieces that one change may write.
fn pieces(first: u32, last: u32, each: &mut dyn FnMut(u32, u16)) {
    let mut first = first;
    while first <= last {
        let count = (last - first + 1).min(u32::from(FibChange::ENTRIES_MAX));
        each(first, count as u16);
        first += count;
    }
}

/// The next hop of the longest prefix of `bits` that has `address`; none.
fn longest(routes: &Routes, address: u32, bits: std::ops::Range<u8>) -> HopId {
    bits.rev()
        .find_map(|bits| routes.get(&(address & mask4(bits), bits)).copied())
        .unwrap_or(HopId::NONE)
}

/// Walks the addresses of a prefix that no longer one has, as first and last of each run.
fn walk_gaps(routes: &Routes, address: u32, bits: u8, each: &mut dyn FnMut(u32, u32)) {
    let last = address | !mask4(bits);
    // One more than fits after the last address of all.
    let mut next = u64::from(address);
    let within = (address, bits)..=(last, 32);
    for &(inner, inner_bits) in routes.range(within).map(|(key, _)| key) {
        if inner_bits == bits || u64::from(inner) < next {
            continue;
        }
        if u64::from(inner) > next {
            each(next as u32, inner - 1);
        }
        next = u64::from(inner | !mask4(inner_bits)) + 1;
    }
    if next <= u64::from(last) {
        each(next as u32, last);
    }
}
