//! The numbers of regions of shared memory: which process asks for which.

use std::collections::BTreeMap;

use base::AppId;
use shm::sockets::Side;

/// Whose memory a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// The region of this application.
    App(AppId),
    /// One side of the local pair of that number: each side has a number of its own.
    LocalPair(u32, Side),
}

/// All regions, by number.
#[derive(Debug, Default)]
pub(super) struct Regions {
    all: BTreeMap<u32, Region>,
    last: u32,
}

impl Regions {
    /// A number that no region ever had. `None`: all were used.
    pub(super) fn new_number(&mut self) -> Option<u32> {
        self.last = self.last.checked_add(1)?;
        Some(self.last)
    }

    pub(super) fn insert(&mut self, number: u32, region: Region) {
        self.all.insert(number, region);
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.all.remove(&number);
    }

    pub(super) fn get(&self, number: u32) -> Option<Region> {
        self.all.get(&number).copied()
    }

    /// Those from a number on, in order.
    pub(super) fn from(&self, first: u32) -> impl Iterator<Item = (u32, Region)> {
        self.all.range(first..).map(|(number, region)| (*number, *region))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
