//! The owner table as workers see it: for those whose flows have timers, and so must be told apart
//! when a whole table changes, packets or not.
//!
//! The dispatcher copies the table in steps after it was published and before the first barrier of
//! its epoch is sent, so that whoever meets such a barrier, or is told to attach, reads that table.
//! At other times nobody reads it. Pinned flows are listed with it: a flow is its own group's, not
//! its hash's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{FlowGroup, FlowHash, WorkerId};
use policy::OwnerTable;

/// Groups copied in one step: some microseconds.
const GROUPS_PER_STEP: u32 = 4096;

const NOBODY: u16 = u16::MAX;

/// What a worker may ask.
#[derive(Clone, Debug)]
pub struct Owners {
    shared: Arc<Shared>,
}

/// By flow id: its hash, and the virtual group that it was given.
type Pins = BTreeMap<u64, (FlowHash, FlowGroup)>;

#[derive(Debug)]
struct Shared {
    /// By group, the virtual ones behind the hashed: the owner's id.
    entries: Box<[AtomicU16]>,
    groups: u32,
    pins: Mutex<Pins>,
}

impl Shared {
    fn pins(&self) -> MutexGuard<'_, Pins> {
        // A worker that died while it looked has changed nothing.
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owners {
    /// Groups that flows are hashed to.
    pub fn hashed(&self) -> u32 {
        self.shared.groups
    }

    /// Groups, those of pinned flows included.
    pub fn groups(&self) -> u32 {
        self.shared.entries.len() as u32
    }

    /// The owner of a group in the table that the last barrier or attach was about.
    pub fn owner(&self, group: FlowGroup) -> Option<WorkerId> {
        let owner = self.shared.entries.get(group.index())?.load(Ordering::Relaxed);
        (owner != NOBODY).then_some(WorkerId(owner))
    }

    /// Whether a flow has a group of its own.
    pub fn is_pinned(&self, flow: u64) -> bool {
        self.shared.pins().contains_key(&flow)
    }

    /// The flow of a virtual group, and its hash.
    pub fn pinned_to(&self, group: FlowGroup) -> Option<(u64, FlowHash)> {
        let pins = self.shared.pins();
        let found = pins.iter().find(|(_, (_, own))| *own == group);
        found.map(|(flow, (hash, _))| (*flow, *hash))
    }
}

/// The dispatcher's end.
#[derive(Debug)]
pub(crate) struct Mirror {
    shared: Arc<Shared>,
    /// Where the copy of the table in force has come.
    copied: u32,
}

impl Mirror {
    pub(crate) fn new(groups: u32, virtual_groups: u32) -> Self {
        let entries = (0..groups + virtual_groups).map(|_| AtomicU16::new(NOBODY)).collect();
        let shared = Shared { entries, groups, pins: Mutex::default() };
        Self { copied: groups + virtual_groups, shared: Arc::new(shared) }
    }

    pub(crate) fn owners(&self) -> Owners {
        Owners { shared: Arc::clone(&self.shared) }
    }

    /// A table was published: it is to be copied.
    pub(crate) fn begin(&mut self) {
        self.copied = 0;
    }

    /// Copies some more; true when all is copied.
    pub(crate) fn copy_step(&mut self, table: &OwnerTable) -> bool {
        let len = self.shared.entries.len() as u32;
        let end = len.min(self.copied + GROUPS_PER_STEP);
        for group in self.copied..end {
            let owner = table.entry(FlowGroup(group)).owner();
            let word = owner.map_or(NOBODY, |owner| owner.0);
            // Whoever reads it has taken a message first that was published after this.
            self.shared.entries[group as usize].store(word, Ordering::Relaxed);
        }
        self.copied = end;
        end == len
    }

    pub(crate) fn pin(&self, flow: u64, hash: FlowHash, group: FlowGroup) {
        self.shared.pins().insert(flow, (hash, group));
    }

    pub(crate) fn unpin(&self, flow: u64) {
        self.shared.pins().remove(&flow);
    }
}

#[cfg(test)]
mod tests {
    use policy::Entry;

    use super::*;

    #[test]
    fn workers_read_the_published_table_when_it_is_copied_and_pins_at_once() {
        let mut table = OwnerTable::new(8192, 4).expect("a power of two");
        let mut mirror = Mirror::new(8192, 4);
        let owners = mirror.owners();
        assert!(mirror.copy_step(&table), "nothing was published");
        for group in [0, 8191, 8193] {
            table.set(FlowGroup(group), Entry::owned_by(WorkerId(3)).with_moving(true));
        }
        mirror.begin();
        let steps = (0..9).take_while(|_| !mirror.copy_step(&table)).count();
        assert_eq!(steps, 2, "in steps");
        for group in [0, 8191, 8193] {
            assert_eq!(owners.owner(FlowGroup(group)), Some(WorkerId(3)));
        }
        assert_eq!(owners.owner(FlowGroup(1)), None);
        mirror.pin(77, FlowHash(9), FlowGroup(8193));
        assert!(owners.is_pinned(77) && !owners.is_pinned(78));
        assert_eq!(owners.pinned_to(FlowGroup(8193)), Some((77, FlowHash(9))));
        mirror.unpin(77);
        assert_eq!(owners.pinned_to(FlowGroup(8193)), None);
    }
}
