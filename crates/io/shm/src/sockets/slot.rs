//! The words of one socket: who writes which, and what they mean.
//!
//! Positions count bytes from zero and never go back; a byte's place in its ring is its position
//! plus the ring's base, modulo the ring's length. A reader loads the position that bounds it first
//! (acquire), the ring after that: so it never sees a new position with an old ring.

use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::slot_state::SlotState;

/// What the application asks for: bits of [`SlotWords::asks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Asks(pub u32);

impl Asks {
    /// Send no more: a FIN follows the last byte of `tx_tail`.
    pub const SHUT_WRITE: u32 = 1;
    /// Nobody reads any more (nothing changes on the wire).
    pub const SHUT_READ: u32 = 1 << 1;
    /// The last descriptor was closed: finish and forget.
    pub const CLOSE: u32 = 1 << 2;
    /// End at once with a reset.
    pub const ABORT: u32 = 1 << 3;
    /// Bring [`SlotWords::info`] up to date, then clear this bit.
    pub const INFO: u32 = 1 << 4;
    /// [`SlotWords::cookie`] is set.
    pub const NAMED: u32 = 1 << 5;
    /// A byte of urgent data was written: [`SlotWords::tx_urgent`].
    pub const URGENT: u32 = 1 << 6;
    /// It was taken from its listener's backlog.
    pub const ACCEPTED: u32 = 1 << 7;
    /// The bits of [`Self::grow`].
    pub const GROW: u32 = !0 << TX_GROW_SHIFT;

    /// Whether it asks for that.
    pub const fn has(self, ask: u32) -> bool {
        self.0 & ask != 0
    }

    /// The base-2 logarithm of the send ring that is wished for; 0: none.
    pub const fn grow(self) -> u8 {
        (self.0 >> TX_GROW_SHIFT) as u8
    }
}

/// The lowest bit of [`Asks::GROW`].
pub const TX_GROW_SHIFT: u32 = 24;

/// Settings of a socket that the daemon carries out, or that all holders of the socket must agree
/// on: an index of [`SlotWords::options`]. Zero is the default of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum SlotOption {
    /// TCP_NODELAY.
    NoDelay,
    /// TCP_CORK.
    Cork,
    /// SO_KEEPALIVE.
    KeepAlive,
    /// TCP_KEEPIDLE in seconds.
    KeepIdle,
    /// TCP_KEEPINTVL in seconds.
    KeepInterval,
    /// TCP_KEEPCNT.
    KeepCount,
    /// TCP_USER_TIMEOUT in milliseconds.
    UserTimeout,
    /// SO_LINGER: 0 off, else the seconds plus one.
    Linger,
    /// TCP_QUICKACK: bit 0, and above it how often it was said, for each time counts.
    QuickAck,
    /// TCP_CONGESTION: 0 the default, 1 reno, 2 cubic, 3 dctcp, 4 timely.
    Congestion,
    /// TCP_MAXSEG: what counts from the first segment on.
    MaxSegment,
    /// TCP_NOTSENT_LOWAT.
    NotSentLow,
    /// SO_RCVLOWAT.
    ReceiveLow,
    /// IP_TOS: of packets of IPv4.
    TypeOfService,
    /// IP_TTL: of packets of IPv4.
    TimeToLive,
    /// SO_SNDBUF, as getsockopt tells it.
    SendBuffer,
    /// SO_RCVBUF, as getsockopt tells it.
    ReceiveBuffer,
    /// SO_RCVTIMEO in microseconds, or with bit 31 in milliseconds.
    ReceiveTimeout,
    /// SO_SNDTIMEO in microseconds, or with bit 31 in milliseconds.
    SendTimeout,
    /// SO_OOBINLINE.
    UrgentInline,
    /// SO_MAX_PACING_RATE in bytes a second; 0: none.
    PacingRate,
    /// SO_BUSY_POLL in microseconds.
    BusyPoll,
    /// IPV6_TCLASS: of packets of IPv6.
    TrafficClass,
    /// IPV6_UNICAST_HOPS: of packets of IPv6.
    HopLimit,
    /// TCP_SYNCNT.
    SynCount,
    /// TCP_DEFER_ACCEPT in seconds, of a listener.
    DeferAccept,
    /// What stands beside each datagram that is received, as bits that only the library knows.
    Beside,
    /// UDP_SEGMENT: bytes of each datagram that a longer one is cut into.
    SegmentBytes,
    /// IP_MTU_DISCOVER: 1 where routers may cut a packet of IPv4.
    MayBeCut,
    /// IP_RECVERR, IPV6_RECVERR: 1 where the kernel's socket is to have what ICMP says.
    TellsErrors,
    /// MSG_MORE: bit 0 where the last write said so; above it how often, for each time counts.
    More,
}

/// How many options there are place for.
pub const OPTIONS: usize = 32;

/// What is told about a connection, by index of [`SlotWords::info`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum SlotInfo {
    /// State as Linux numbers it (include/net/tcp_states.h).
    State,
    /// Smoothed round trip in microseconds.
    Rtt,
    /// Its variation in microseconds.
    RttVariation,
    /// Retransmission timeout in microseconds.
    Rto,
    /// Congestion window in segments.
    Window,
    /// Slow start threshold in segments.
    Threshold,
    /// Largest payload of a segment out, and in, in the two halves.
    Segments,
    /// Segments sent again, ever.
    Retransmitted,
    /// Bytes acknowledged by the peer, ever.
    Acknowledged,
    /// Bytes received, ever.
    Received,
    /// Segments on their way.
    Unacknowledged,
    /// Bytes not sent yet.
    Unsent,
    /// Timestamps 1, SACK 2, window scaling 4 (with both shifts in bits 8 and 16), ECN 8.
    Options,
    /// Shortest round trip in microseconds.
    RttMin,
    /// Segments out, and in, in the two halves.
    Counts,
    /// Congestion control as [`SlotOption::Congestion`] numbers it.
    Congestion,
    /// Bytes that the peer's window takes.
    SendWindow,
    /// The timer that runs: 1 retransmission, 2 keep-alive, 3 TIME-WAIT, 4 zero window (0: none) in
    /// the low 8 bits, how often it has run out in a row in the next 8, milliseconds left in the
    /// high 32.
    Timer,
}

/// How many of them there are place for.
const INFOS: usize = 18;

/// A socket's address in shared words.
#[derive(Debug)]
#[repr(C)]
pub struct Address {
    /// The port in the low 16 bits, the family's IP version (0: no address) in the next 8.
    name: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
}

impl Address {
    /// The address; nothing when there is none.
    pub fn get(&self) -> Option<SocketAddr> {
        let name = self.name.load(Ordering::Acquire);
        let (high, low) = (self.high.load(Ordering::Relaxed), self.low.load(Ordering::Relaxed));
        let ip = match (name >> 16) as u8 {
            4 => IpAddr::V4(Ipv4Addr::from(low as u32)),
            6 => IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low))),
            _ => return None,
        };
        Some(SocketAddr::new(ip, name as u16))
    }

    /// Sets or removes it.
    pub fn set(&self, address: Option<SocketAddr>) {
        let (version, port, bits) = match address {
            None => (0, 0, 0),
            Some(SocketAddr::V4(v4)) => (4, v4.port(), u128::from(u32::from(*v4.ip()))),
            Some(SocketAddr::V6(v6)) => (6, v6.port(), u128::from(*v6.ip())),
        };
        self.high.store((bits >> 64) as u64, Ordering::Relaxed);
        self.low.store(bits as u64, Ordering::Relaxed);
        self.name.store(version << 16 | u64::from(port), Ordering::Release);
    }
}

/// All that is shared about one socket: ten lines, in pairs, because processors fetch them so.
///
/// In an application's own region the daemon writes the first pair, the application the two after
/// it, the daemon the rest. In a local pair nobody but the slot's own application writes any of
/// them, except `notify_word` and `error`.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct SlotWords {
    /// A [`SlotState`].
    pub state: AtomicU32,
    /// Changes each time that the slot is used for another socket.
    pub generation: AtomicU32,
    /// Bytes that ever came, in order.
    pub rx_tail: AtomicU64,
    /// The [`super::RingDesc`] of the ring that they lie in.
    pub rx_ring: AtomicU64,
    /// Bytes that the peer has acknowledged: their place is free.
    pub tx_head: AtomicU64,
    /// The ring that the application should write to.
    pub tx_ring: AtomicU64,
    /// What is added to a position to get the index in the receive ring, and in the send ring.
    pub rx_base: AtomicU32,
    /// See `rx_base`.
    pub tx_base: AtomicU32,
    /// Where the peer's urgent data end, plus one; 0: it has sent none.
    pub rx_urgent: AtomicU64,
    /// The daemon's worker whose ready bits are to be set.
    pub worker: AtomicU32,
    /// The errno of SO_ERROR: whoever reads it sets it to zero.
    pub error: AtomicU32,
    /// Counts on when somebody sleeps and should not: a futex.
    pub notify_word: AtomicU32,
    /// Counts on when `info` has been brought up to date.
    pub info_version: AtomicU32,
    /// The most that the send ring may grow to, as a logarithm.
    pub tx_log2_max: AtomicU32,
    /// Of a UDP socket: bytes of the longest payload that leaves here. Longer ones are for the
    /// kernel to cut.
    pub payload_max: AtomicU32,
    /// Not zero: what came last is a sample of this number, whose way through the program is to be
    /// timed.
    pub trace: AtomicU32,
    /// Of a UDP socket that is bound to no address: as of which addresses of the host
    /// ([`super::SocketMemory::addresses_version`]) it may send from every one that is served; 0:
    /// nobody knows.
    pub sources_version: AtomicU32,
    /// Of a UDP socket: not zero when the kernel's socket may have an error to tell before anything
    /// else, because it was given one by ICMP. Whoever is about to ask it sets it to zero, but for
    /// [`Self::BEING_GIVEN`].
    pub kernel_error: AtomicU32,
    _rest: [u32; 9],

    /// Bytes read.
    pub rx_head: AtomicU64,
    /// Bytes written.
    pub tx_tail: AtomicU64,
    /// The ring that they lie in: `tx_ring` as it is or was.
    pub tx_ring_used: AtomicU64,
    /// Where our urgent data end, plus one.
    pub tx_urgent: AtomicU64,
    /// [`Asks`].
    pub asks: AtomicU32,
    /// Not zero: somebody sleeps, or is about to, until `notify_word` changes.
    pub sleepers: AtomicU32,
    /// The pollers that want to hear of this socket, a bit each.
    pub pollers: [AtomicU64; 4],
    /// SO_COOKIE of the descriptor that the program sees.
    pub cookie: AtomicU64,
    /// Counts on with each change of `options`.
    pub options_version: AtomicU32,
    /// O_NONBLOCK and O_ASYNC: they belong to the open file, not to a descriptor or process.
    pub file_flags: AtomicU32,
    /// Not zero: other processes may hold the socket.
    pub is_shared: AtomicU32,
    /// Not zero: whoever holds it goes on with its descriptor when the connection is given to the
    /// kernel ([`SlotState::KERNELS`]).
    pub follows: AtomicU32,
    /// The sample that was read, and the one that was answered.
    pub trace_read: AtomicU32,
    /// See `trace_read`.
    pub trace_written: AtomicU32,
    /// When, in nanoseconds of CLOCK_MONOTONIC: before its first byte was copied out, and after the
    /// first byte behind it was copied in.
    pub trace_read_nanos: AtomicU64,
    /// See `trace_read_nanos`.
    pub trace_written_nanos: AtomicU64,
    /// Locks of both directions ([`super::SlotLock`]); the application's own.
    pub rx_lock: AtomicU32,
    /// See `rx_lock`.
    pub tx_lock: AtomicU32,

    /// By [`SlotOption`].
    pub options: [AtomicU32; OPTIONS],

    /// Where it is bound.
    pub local: Address,
    /// Whom it is connected to.
    pub remote: Address,
    /// By [`SlotInfo`].
    pub info: [AtomicU64; INFOS],
    /// The application's: the urgent mark (`rx_urgent`, or a neighbour's `tx_urgent`) whose byte
    /// was read.
    pub urgent_read: AtomicU64,
}

const _: () = assert!(size_of::<SlotWords>() == 640, "five pairs of lines");
const _: () = assert!(offset_of!(SlotWords, rx_head) == 128, "the application's lines begin");
const _: () = assert!(offset_of!(SlotWords, options) == 256, "what is seldom written begins");
const _: () = assert!(offset_of!(SlotWords, local) == 384, "the daemon's lines begin");

impl SlotWords {
    /// See `kernel_error`: it is being given one just now.
    pub const BEING_GIVEN: u32 = 2;

    /// The state.
    #[inline]
    pub fn state(&self) -> SlotState {
        SlotState(self.state.load(Ordering::Acquire))
    }

    /// What is asked for.
    #[inline]
    pub fn asks(&self) -> Asks {
        Asks(self.asks.load(Ordering::Acquire))
    }

    /// The value of an option.
    pub fn option(&self, option: SlotOption) -> u32 {
        self.options[option as usize].load(Ordering::Relaxed)
    }

    /// Sets an option and says so.
    pub fn set_option(&self, option: SlotOption, value: u32) {
        self.options[option as usize].store(value, Ordering::Relaxed);
        self.options_version.fetch_add(1, Ordering::Release);
    }

    /// What was told about the connection last.
    pub fn info(&self, which: SlotInfo) -> u64 {
        self.info_word(which).load(Ordering::Relaxed)
    }

    /// The word of it.
    pub fn info_word(&self, which: SlotInfo) -> &AtomicU64 {
        &self.info[which as usize]
    }

    /// Everything but kind and generation as in a new socket.
    pub(super) fn rewind(&self) {
        for word in [
            &self.rx_tail,
            &self.rx_ring,
            &self.tx_head,
            &self.tx_ring,
            &self.rx_urgent,
            &self.rx_head,
            &self.tx_tail,
            &self.tx_ring_used,
            &self.tx_urgent,
            &self.cookie,
            &self.trace_read_nanos,
            &self.trace_written_nanos,
            &self.urgent_read,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [
            &self.info_version,
            &self.rx_base,
            &self.tx_base,
            &self.worker,
            &self.error,
            &self.kernel_error,
            &self.tx_log2_max,
            &self.payload_max,
            &self.trace,
            &self.trace_read,
            &self.trace_written,
            &self.asks,
            &self.sleepers,
            &self.options_version,
            &self.file_flags,
            &self.is_shared,
            &self.follows,
            &self.rx_lock,
            &self.tx_lock,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.pollers.iter().chain(&self.info).for_each(|word| word.store(0, Ordering::Relaxed));
        self.options.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.local.set(None);
        self.remote.set(None);
    }
}
