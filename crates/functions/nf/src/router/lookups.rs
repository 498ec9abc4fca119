//! Packets of a batch whose routes are looked up together.

use arrayvec::ArrayVec;
use base::BURST;

/// Packets of one IP version, by index in the batch and by destination.
pub(super) struct Lookups<A> {
    indexes: ArrayVec<u8, BURST>,
    pub(super) addresses: ArrayVec<A, BURST>,
}

impl<A: Copy> Lookups<A> {
    pub(super) fn new() -> Self {
        Self { indexes: ArrayVec::new(), addresses: ArrayVec::new() }
    }

    /// A batch has at most as many packets as there is room for.
    #[inline]
    pub(super) fn push(&mut self, index: usize, address: A) {
        self.indexes.push(index as u8);
        self.addresses.push(address);
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, A)> {
        self.indexes.iter().map(|index| usize::from(*index)).zip(self.addresses.iter().copied())
    }
}
