//! Settings of an engine and of one flow, with Linux's values as defaults.

use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};

use base::Nanos;
use wire::Toeplitz;

/// Settings of an engine. All flows share them.
#[derive(Clone, Debug)]
pub struct Config {
    /// Flows at once, those in TIME-WAIT included; the oldest of these gives its place to whoever
    /// needs one. Memory for them is reserved at the start and
    /// touched when it is first used.
    pub flows_max: u32,
    /// Key of the Toeplitz hash by which flows are found and flow groups are cut: the same as that
    /// of whoever computes [`crate::Incoming::hash`]. It should be a secret, so that nobody outside
    /// can choose names that all fall on one place; the default is known to everybody.
    pub hash_key: [u8; 40],
    /// Segments on their way that one flow alone may have: the memory of retransmission. All flows
    /// together have memory for twice as many, and for 16 of each beside. Those 16 a flow always
    /// gets; above them it gets as many as are free, so that the share of each becomes smaller the
    /// more want one: `n` flows that take all they can get have the `n + 1`st part of it each. Nor
    /// does a flow get more than one for every 256 bytes of its send ring beside its 16, so that
    /// a peer with a tiny MSS costs no more than others.
    pub sent_max: u32,
    /// Out-of-order ranges that one flow alone may have. All together have memory for twice as
    /// many, shared in the same way, and each always gets four.
    pub ranges_max: u32,
    /// Out-of-order ranges of one flow; a segment that would make one more is dropped.
    pub ranges_per_flow_max: u32,
    /// Bytes of an IP packet on the way out: 576 to 9216. Segments are cut to it.
    pub mtu: u16,
    /// Bytes of a packet that a path is taken to carry until more is known: at most `mtu`.
    pub path_mtu: u16,
    /// Whether to find out by longer segments what a path carries (RFC 4821).
    pub mtu_probing: bool,
    /// What every path carries: the search begins between this and `mtu`.
    pub mtu_floor: u16,
    /// Whether to offer and accept window scaling (RFC 7323 section 2).
    pub window_scaling: bool,
    /// Whether to offer and accept timestamps (RFC 7323 section 3).
    pub timestamps: bool,
    /// Whether to offer and accept selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Shortest retransmission timeout.
    pub rto_min: Nanos,
    /// Longest retransmission timeout.
    pub rto_max: Nanos,
    /// Retransmission timeout before the first round trip was measured (RFC 6298 section 2.1).
    pub rto_initial: Nanos,
    /// How long an acknowledgement may wait for data to ride on (RFC 9293 section 3.8.6.3).
    pub ack_delay: Nanos,
    /// Whether a window that was not used for a while shrinks (RFC 5681 section 4.1).
    pub slow_start_after_idle: bool,
    /// Whether the end of a flight is probed (RFC 8985 section 7).
    pub tail_probe: bool,
    /// How often a SYN is sent again.
    pub syn_retries: u8,
    /// How often a SYN-ACK is sent again.
    pub syn_ack_retries: u8,
    /// Timeouts in a row after which the peer counts as gone.
    pub retries: u8,
    /// How long a closed connection's name stays taken (RFC 9293 section 3.6.1: two segment
    /// lifetimes), and how long a wholly closed one waits for the peer's FIN.
    pub time_wait: Nanos,
    /// Segments of the first flight (RFC 6928).
    pub initial_window: u32,
    /// Least time between two acknowledgements of the same flow to segments that no honest peer
    /// sends (RFC 5961 section 7).
    pub challenge_interval: Nanos,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            flows_max: 65_536,
            hash_key: Toeplitz::MICROSOFT_KEY,
            sent_max: 1 << 18,
            ranges_max: 1 << 16,
            ranges_per_flow_max: 256,
            mtu: 1500,
            path_mtu: u16::MAX,
            mtu_probing: false,
            mtu_floor: 1064,
            window_scaling: true,
            timestamps: true,
            sack: true,
            rto_min: Nanos::from_millis(200),
            rto_max: Nanos::from_secs(120),
            rto_initial: Nanos::from_secs(1),
            ack_delay: Nanos::from_millis(40),
            slow_start_after_idle: true,
            tail_probe: true,
            syn_retries: 6,
            syn_ack_retries: 5,
            retries: 15,
            time_wait: Nanos::from_secs(60),
            initial_window: 10,
            challenge_interval: Nanos::from_millis(500),
        }
    }
}

/// Which congestion control a flow runs under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681 and RFC 6582.
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 8257; asks for ECN.
    Dctcp,
    /// By the gradient of round trips (Mittal et al., 2015): for data centres, where a queue is
    /// tens of microseconds. It sets a rate, so that its flows are always paced.
    Timely,
}

/// When a silent peer is asked whether it is there (RFC 9293 section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence before the first question, in seconds.
    pub idle_s: u32,
    /// Time between questions, in seconds.
    pub interval_s: u16,
    /// Questions without an answer after which the peer counts as gone.
    pub probes: NonZeroU8,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            idle_s: 7200,
            interval_s: 75,
            probes: const { NonZeroU8::new(9).expect("it is nine") },
        }
    }
}

/// What a flow's packets have in their IP headers beside addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFields {
    /// Differentiated services in the upper six bits (RFC 2474); the lower two are ECN's, and zero.
    pub class: u8,
    /// Hops that a packet may go (IPv4: time to live).
    pub hop_limit: u8,
}

impl Default for IpFields {
    fn default() -> Self {
        Self { class: 0, hop_limit: 64 }
    }
}

/// Settings of one flow; a listener's go to every flow that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// Base-2 logarithm of the bytes in its receive ring: 8 to 30.
    pub receive_ring_log2: u8,
    /// Base-2 logarithm of the bytes that its receive ring may grow to: what windows can say is
    /// settled by the SYN. At least what the ring has from the start.
    pub receive_limit_log2: u8,
    /// Base-2 logarithm of the bytes in its send ring: 8 to 30.
    pub send_ring_log2: u8,
    /// Largest payload of a segment, either way (TCP_MAXSEG); without it the MTU decides.
    pub mss_max: Option<NonZeroU16>,
    /// Its congestion control.
    pub congestion: Algorithm,
    /// Whether to ask for ECN when connecting (RFC 3168); it is always accepted when asked for.
    pub ecn: bool,
    /// Whether small segments leave at once instead of waiting for acknowledgements (Nagle).
    pub no_delay: bool,
    /// Whether to ask a silent peer.
    pub keep_alive: Option<KeepAlive>,
    /// Milliseconds that sent data may stay unacknowledged before the peer counts as gone (RFC
    /// 5482); without it [`Config::retries`] decides.
    pub user_timeout_ms: Option<NonZeroU32>,
    /// Whether a flight is spread over its round trip instead of leaving at once.
    pub pacing: bool,
    /// Most bytes of payload in a second (SO_MAX_PACING_RATE); zero: as many as the window lets.
    pub rate_max: u32,
    /// How often its SYN is sent again (TCP_SYNCNT); zero: as [`Config::syn_retries`] says.
    pub syn_retries: u8,
    /// What its packets have in their IP headers.
    pub ip: IpFields,
    /// Of a listener: for this many timeouts of a SYN-ACK an acknowledgement without data does not
    /// make a connection (TCP_DEFER_ACCEPT). See [`Self::timeouts_in`].
    pub defer_accept: u8,
}

impl Default for FlowOptions {
    fn default() -> Self {
        Self {
            receive_ring_log2: 16,
            receive_limit_log2: 16,
            send_ring_log2: 16,
            mss_max: None,
            congestion: Algorithm::default(),
            ecn: false,
            no_delay: false,
            keep_alive: None,
            user_timeout_ms: None,
            pacing: false,
            rate_max: 0,
            syn_retries: 0,
            ip: IpFields::default(),
            defer_accept: 0,
        }
    }
}
