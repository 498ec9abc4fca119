//! Ids as types, so that a worker is never passed where a queue is meant.

use std::fmt;

/// A thread of the data plane, or of an application in packet mode, that owns flow groups.
///
/// Stable for the life of the worker: nothing renumbers when another one comes or goes. Below
/// [`WorkerId::LIMIT`], because the owner table keeps a flag in the spare bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct WorkerId(pub u16);

impl WorkerId {
    /// Ids are smaller than this.
    pub const LIMIT: u16 = 0x3fff;

    /// The id as an index of per-worker arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An application: a program with sockets and those that it forked, or a set of workers that is
/// given cores together.
///
/// Whoever attaches it chooses the number: the attach server for a program with sockets (zero
/// names nobody), the dispatcher for packet mode and for the core control (zero is the data plane's
/// own workers). Later another application may have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct AppId(pub u16);

impl AppId {
    /// The id as an index of per-application arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A region of shared memory with sockets: an application's own, or one between two applications.
/// Zero names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RegionId(pub u32);

impl RegionId {
    /// The number after this one; `None`: all were used.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// A socket's place in its region of shared memory.
///
/// The two ends of a connection within the host have an even place, which connects, and the one
/// after it, which accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SlotId(pub u32);

impl SlotId {
    /// The id as an index of per-slot arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The slot of the other end of a connection within the host.
    #[must_use]
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// The slot of the connecting end of such a connection.
    #[must_use]
    pub const fn connecting(self) -> Self {
        Self(self.0 & !1)
    }

    /// Which end of such a connection it is of: 0 connects, 1 accepts.
    pub const fn end(self) -> usize {
        (self.0 & 1) as usize
    }
}

/// Which of the sockets that ever had a slot: with the slot it names a socket for good. Zero is
/// that of a slot that no socket had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Generation(pub u32);

impl Generation {
    /// That of the slot's next socket.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// `flow hash & (groups - 1)`: the unit that is owned and moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FlowGroup(pub u32);

impl FlowGroup {
    /// The id as an index of per-group arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Keyed Toeplitz hash of a flow's 5-tuple, always computed by us (a port's own hash is not
/// trusted: on veth it changes in the life of a flow).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FlowHash(pub u32);

/// A NIC or something that looks like one; the index of its entry in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PortId(pub u16);

/// A receive/transmit queue pair of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct QueueId(pub u16);

/// Counts published owner tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for FlowGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
