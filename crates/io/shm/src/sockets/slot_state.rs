//! The state of a socket, as it stands in a word of its slot.

/// What a slot is used for: the low four bits of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Nothing.
    Free = 0,
    /// A TCP connection.
    Stream = 1,
    /// A TCP listener: its receive ring is a [`super::Backlog`].
    Listener = 2,
    /// A UDP socket: its rings hold records.
    Datagram = 3,
}

/// The state of a socket: a kind and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SlotState(pub u32);

impl SlotState {
    /// A connection is being opened.
    pub const CONNECTING: u32 = 1 << 8;
    /// The connection stands, or stood.
    pub const CONNECTED: u32 = 1 << 9;
    /// The peer has closed its side: nothing comes after `rx_tail`.
    pub const PEER_CLOSED: u32 = 1 << 10;
    /// The peer has reset it, it timed out or could not be opened: `error` said why.
    pub const BROKEN: u32 = 1 << 11;
    /// Everything is over; the daemon looks at the slot no more.
    pub const FINISHED: u32 = 1 << 12;
    /// Sending was shut down, and all of it was acknowledged.
    pub const SENT_ALL: u32 = 1 << 13;
    /// Both ends are applications on this machine: the peer's words are those of the slot beside
    /// it.
    pub const LOCAL: u32 = 1 << 14;
    /// The connection is the kernel's from now on: the descriptor stands for it, and nothing here
    /// is looked at any more, by either side. No other flag changes after it.
    pub const KERNELS: u32 = 1 << 15;

    /// What the slot is.
    pub const fn kind(self) -> Kind {
        match self.0 & 15 {
            1 => Kind::Stream,
            2 => Kind::Listener,
            3 => Kind::Datagram,
            _ => Kind::Free,
        }
    }

    /// Whether a flag is set.
    pub const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}
