//! `[tcp]`: the TCP engine of the daemon's workers.

use serde::{Deserialize, Serialize};

/// `[tcp]`: how the daemon's own workers speak TCP (jobs `tcp-echo`, `tcp-discard`, `tcp-chargen`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tcp {
    /// Connections of each worker, those in TIME-WAIT included, at most. Default: 131 072.
    pub flows: u32,
    /// Connections that may be half open at each listener before SYN cookies take their place.
    /// Default: 4096.
    pub backlog: u32,
    /// Congestion control: cubic, reno, dctcp or timely. Default: cubic.
    pub congestion: Congestion,
    /// Whether flights are spread over their round trip instead of leaving at once. Default: false.
    pub pacing: bool,
    /// Whether small segments leave at once (what TCP_NODELAY does). Default: false.
    pub no_delay: bool,
    /// Whether to offer and accept timestamps. Default: true.
    pub timestamps: bool,
    /// Whether to offer and accept selective acknowledgements. Default: true.
    pub sack: bool,
    /// Whether to offer and accept window scaling. Default: true.
    pub window_scaling: bool,
    /// Whether to find out by longer segments what a path carries (RFC 4821). Default: false.
    pub mtu_probing: bool,
    /// Segments of the first flight. Default: 10.
    pub initial_window: u32,
    /// Shortest retransmission timeout in milliseconds. Default: 200.
    pub rto_min_ms: u32,
    /// How long an acknowledgement may wait for data to ride on, in milliseconds. Default: 40.
    pub ack_delay_ms: u32,
    /// How long a closed connection's name stays taken, in milliseconds. Default: 60 000.
    pub time_wait_ms: u32,
    /// Kibibytes of each ring of a new connection, a power of two. Default: 64.
    pub ring_kib: u32,
    /// Kibibytes that a ring may grow to, a power of two, at least `ring_kib`. Default: 4096.
    pub ring_max_kib: u32,
    /// Mebibytes of all rings of a worker together. Default: 1024.
    pub memory_mib: u32,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            flows: 131_072,
            backlog: 4096,
            congestion: Congestion::Cubic,
            pacing: false,
            no_delay: false,
            timestamps: true,
            sack: true,
            window_scaling: true,
            mtu_probing: false,
            initial_window: 10,
            rto_min_ms: 200,
            ack_delay_ms: 40,
            time_wait_ms: 60_000,
            ring_kib: 64,
            ring_max_kib: 4096,
            memory_mib: 1024,
        }
    }
}

/// Congestion control of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// RFC 9438.
    Cubic,
    /// NewReno: RFC 5681 and RFC 6582.
    Reno,
    /// RFC 8257, by ECN marks.
    Dctcp,
    /// By the gradient of round trips.
    Timely,
}

impl Congestion {
    /// The word that stands for it, here and in TCP_CONGESTION.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Dctcp => "dctcp",
            Self::Timely => "timely",
        }
    }
}
