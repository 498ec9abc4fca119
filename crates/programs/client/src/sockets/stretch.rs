//! A stretch of positions and the ring that it lies in.

use shm::sockets::RingDesc;

/// A stretch of positions and the ring that it lies in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) ring: RingDesc,
    pub(crate) head: u64,
    pub(crate) tail: u64,
}

impl Stretch {
    pub(crate) fn bytes(&self) -> u64 {
        self.tail - self.head
    }

    /// Free bytes of the ring.
    pub(crate) fn room(&self) -> u64 {
        self.ring.bytes() - self.bytes()
    }

    /// Itself, if the ring has room for it.
    #[inline]
    pub(super) fn possible(self) -> Result<Self, Nonsense> {
        let bytes = self.tail.checked_sub(self.head).ok_or(Nonsense)?;
        if bytes > self.ring.bytes() { Err(Nonsense) } else { Ok(self) }
    }
}

/// The other side has written what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;
