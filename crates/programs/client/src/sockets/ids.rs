//! The numbers that name a socket.

/// A region of shared memory: an application's own, or one between two applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);
