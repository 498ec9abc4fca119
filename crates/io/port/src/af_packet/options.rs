//! How a packet port is opened.

/// How the kernel spreads packets over the sockets of a fanout group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u16)]
pub enum FanoutMode {
    /// By flow.
    #[default]
    Hash = 0,
    /// By the CPU they arrive on.
    Cpu = 2,
    /// By the queue they arrive on.
    Queue = 5,
}

/// Settings of a packet socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfPacketOptions {
    /// Share the interface's packets with the other sockets of this group.
    pub fanout: Option<(u16, FanoutMode)>,
    /// Send past the queueing discipline: faster, and what it drops is counted here, not there.
    pub qdisc_bypass: bool,
    /// Look at no checksum. Never for a real link; what a kernel of this host left open is
    /// accepted without.
    pub trust_link: bool,
}

impl Default for AfPacketOptions {
    fn default() -> Self {
        Self { fanout: None, qdisc_bypass: true, trust_link: false }
    }
}
