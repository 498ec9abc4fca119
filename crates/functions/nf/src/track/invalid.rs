//! Why a packet is refused.

/// Why a packet can be of no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// TCP that begins in the middle, or flags that nobody sends.
    Tcp,
    /// TCP outside of what the other end can expect.
    Window,
    /// An ICMP message that answers nothing, or an error about no packet of a known connection.
    Icmp,
    /// A later fragment whose first one has not been seen, or was not let pass.
    Fragment,
}
