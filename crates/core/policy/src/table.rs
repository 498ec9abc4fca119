//! Which worker owns which group: two bytes a group, read once per packet.
//!
//! The number of groups is a setting. Few groups behave like the buckets of a NIC's indirection
//! table; a million behave like a table per flow, without inserts. Behind the hashed groups stand
//! *virtual* groups, one for each slot of the override table, so that a pinned flow is moved, held
//! and marked by the very machinery of a group.

use std::fmt;

use base::{FlowGroup, FlowHash, WorkerId};

/// Who owns a group, and what is going on with it.
///
/// Bits 0-13: the worker, or all ones for nobody. Bit 14: a single-group hand-over is under way.
/// Bit 15: the group has been idle for long and may be placed anew.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(u16);

const WORKER_MASK: u16 = 0x3fff;
const MOVING: u16 = 0x4000;
const IDLE: u16 = 0x8000;

impl Entry {
    /// No worker owns the group.
    pub const UNOWNED: Self = Self(WORKER_MASK);

    /// Owned, and nothing going on.
    pub const fn owned_by(worker: WorkerId) -> Self {
        Self(worker.0 & WORKER_MASK)
    }

    /// As it stands in memory, and in recordings.
    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// What [`Entry::bits`] gave; any bits are an entry.
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The owner if a packet may simply go to it: owned, not moving, not idle.
    #[inline]
    pub const fn plain(self) -> Option<WorkerId> {
        // One comparison: a flag makes the value larger than every id, and so does "nobody".
        if self.0 < WorkerId::LIMIT { Some(WorkerId(self.0)) } else { None }
    }

    /// The owner, whatever is going on.
    #[inline]
    pub const fn owner(self) -> Option<WorkerId> {
        let worker = self.0 & WORKER_MASK;
        if worker == WORKER_MASK { None } else { Some(WorkerId(worker)) }
    }

    /// Whether a single-group hand-over is under way.
    pub const fn is_moving(self) -> bool {
        self.0 & MOVING != 0
    }

    /// Whether the group may be placed anew when it wakes.
    pub const fn is_idle(self) -> bool {
        self.0 & IDLE != 0
    }

    /// The same owner with the moving flag as given.
    #[must_use]
    pub const fn with_moving(self, moving: bool) -> Self {
        Self(if moving { self.0 | MOVING } else { self.0 & !MOVING })
    }

    /// The same owner with the idle flag as given.
    #[must_use]
    pub const fn with_idle(self, idle: bool) -> Self {
        Self(if idle { self.0 | IDLE } else { self.0 & !IDLE })
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner() {
            None => f.write_str("unowned")?,
            Some(worker) => write!(f, "worker {worker}")?,
        }
        let flag = |on, name| if on { name } else { "" };
        write!(f, "{}{}", flag(self.is_moving(), " moving"), flag(self.is_idle(), " idle"))
    }
}

/// The table that the dispatcher reads for every packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerTable {
    entries: Vec<Entry>,
    groups: u32,
}

impl OwnerTable {
    /// Fewest groups: an RSS indirection table's.
    pub const GROUPS_MIN: u32 = 128;
    /// Most groups.
    pub const GROUPS_MAX: u32 = 1 << 20;

    /// A table of `groups` hashed groups and `virtual_groups` more for pinned flows, all unowned.
    ///
    /// # Errors
    /// When `groups` is not a power of two from 128 to 1 Mi.
    pub fn new(groups: u32, virtual_groups: u32) -> Result<Self, GroupCountError> {
        if !groups.is_power_of_two() || !(Self::GROUPS_MIN..=Self::GROUPS_MAX).contains(&groups) {
            return Err(GroupCountError(groups));
        }
        Ok(Self { entries: vec![Entry::UNOWNED; (groups + virtual_groups) as usize], groups })
    }

    /// The group of a flow.
    #[inline]
    pub fn group_of(&self, hash: FlowHash) -> FlowGroup {
        FlowGroup(hash.0 & (self.groups - 1))
    }

    /// The entry of a group; unowned when there is no such group.
    #[inline]
    pub fn entry(&self, group: FlowGroup) -> Entry {
        self.entries.get(group.index()).copied().unwrap_or(Entry::UNOWNED)
    }

    /// Writes the entry of a group; ignored when there is no such group.
    #[inline]
    pub fn set(&mut self, group: FlowGroup, entry: Entry) {
        if let Some(slot) = self.entries.get_mut(group.index()) {
            *slot = entry;
        }
    }

    /// Hashed groups.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Hashed and virtual groups.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Never: a table has at least 128 groups.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, virtual groups last.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// That many groups are not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCountError(pub u32);

impl fmt::Display for GroupCountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} flow groups are not possible: use a power of two from {} to {}",
            self.0,
            OwnerTable::GROUPS_MIN,
            OwnerTable::GROUPS_MAX
        )
    }
}

impl std::error::Error for GroupCountError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_owned_group_with_nothing_going_on_is_plain() {
        let entry = Entry::owned_by(WorkerId(5));
        assert_eq!(entry.plain(), Some(WorkerId(5)));
        for flagged in [entry.with_moving(true), entry.with_idle(true)] {
            assert_eq!((flagged.plain(), flagged.owner()), (None, Some(WorkerId(5))));
        }
        assert_eq!((Entry::UNOWNED.plain(), Entry::UNOWNED.owner()), (None, None));
        assert_eq!(
            entry.with_moving(true).with_idle(true).with_moving(false).with_idle(false),
            entry
        );
    }

    #[test]
    fn group_counts_that_are_not_possible_are_refused_with_what_is() {
        for groups in [0, 64, 100, 3 << 10, 1 << 21] {
            let error = OwnerTable::new(groups, 0).expect_err("not possible").to_string();
            assert!(error.contains("power of two from 128 to 1048576"), "{error}");
        }
    }

    #[test]
    fn groups_outside_the_table_are_nobodys_and_cannot_be_written() {
        let mut table = OwnerTable::new(128, 4).expect("128 is possible");
        table.set(FlowGroup(131), Entry::owned_by(WorkerId(1)));
        table.set(FlowGroup(132), Entry::owned_by(WorkerId(1)));
        assert_eq!(table.entry(FlowGroup(131)).owner(), Some(WorkerId(1)));
        assert_eq!(table.entry(FlowGroup(132)), Entry::UNOWNED);
        assert_eq!(table.group_of(FlowHash(0xffff_ffff)), FlowGroup(127));
    }
}
