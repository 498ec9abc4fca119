//! The numbers of regions of shared memory: which process asks for which.

use std::collections::BTreeMap;

use base::{AppId, RegionId};
use shm::sockets::Side;

/// Whose memory a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// The region of this application.
    App(AppId),
    /// One side of the local pair whose connecting side has that region.
    LocalPair(RegionId, Side),
}

/// All regions, by number.
#[derive(Debug, Default)]
pub(super) struct Regions {
    all: BTreeMap<RegionId, Region>,
    last: RegionId,
}

impl Regions {
    /// A number that no region ever had. `None`: all were used.
    pub(super) fn new_number(&mut self) -> Option<RegionId> {
        self.last = self.last.next()?;
        Some(self.last)
    }

    pub(super) fn insert(&mut self, number: RegionId, region: Region) {
        self.all.insert(number, region);
    }

    pub(super) fn remove(&mut self, number: RegionId) {
        self.all.remove(&number);
    }

    pub(super) fn get(&self, number: RegionId) -> Option<Region> {
        self.all.get(&number).copied()
    }

    /// Those from a number on, in order.
    pub(super) fn from(&self, first: RegionId) -> impl Iterator<Item = (RegionId, Region)> {
        self.all.range(first..).map(|(number, region)| (*number, *region))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
