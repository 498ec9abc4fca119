//! How many connections were given to the kernel, and how many could not be.

use std::collections::BTreeMap;

use base::AppId;

use super::raw_segments::RawSegments;

/// Connections that no worker has any more, by application: their slots are taken still.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) raw_segments: RawSegments,
    slots: BTreeMap<AppId, u32>,
    given: u64,
    kept: u64,
}

impl Given {
    /// None yet, in this thread's network namespace.
    pub(super) fn new() -> Self {
        Self { raw_segments: RawSegments::open(), slots: BTreeMap::new(), given: 0, kept: 0 }
    }

    /// The kernel goes on with one.
    pub(super) fn add(&mut self, app: AppId) {
        *self.slots.entry(app).or_default() += 1;
        self.given += 1;
    }

    /// It goes on with one that no slot stands for.
    pub(super) fn add_orphan(&mut self) {
        self.given += 1;
    }

    /// One was let go of, and the kernel does not go on with it.
    pub(super) fn add_lost(&mut self, app: AppId) {
        *self.slots.entry(app).or_default() += 1;
    }

    /// Counts connections that are left to their workers, or were lost.
    pub(super) fn add_kept(&mut self, count: u64) {
        self.kept += count;
    }

    /// Slots of an application that no worker gives back.
    pub(super) fn slots_of(&self, app: AppId) -> u32 {
        self.slots.get(&app).copied().unwrap_or_default()
    }

    /// Those that were given, and all others that there were.
    pub(super) fn counts(&self) -> [u64; 2] {
        [self.given, self.kept]
    }
}
