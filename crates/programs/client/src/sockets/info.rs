//! What is known about a connection: what TCP_INFO tells.

use std::sync::atomic::{Ordering, fence};

use base::Nanos;
use shm::sockets::{Asks, SlotInfo, SlotWords};
use sys::{clock, thread};

use super::socket::Socket;
use super::verdict::Phase;

/// A worker that is busy or asleep answers within this time, or what it said before stands.
const TIMEOUT: Nanos = Nanos::from_micros(500);
/// It has said nothing yet: zeros would be told for what is known.
const FIRST_TIMEOUT: Nanos = Nanos::from_millis(50);

/// A connection at one moment. Zero: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketInfo {
    /// State as Linux numbers it: 1 established, 2 SYN sent, 7 closed, 8 close wait, 10 listening.
    pub state: u8,
    /// Smoothed round trip in microseconds.
    pub rtt_us: u32,
    /// Its variation in microseconds.
    pub rtt_variation_us: u32,
    /// Shortest round trip in microseconds.
    pub rtt_min_us: u32,
    /// Retransmission timeout in microseconds.
    pub rto_us: u32,
    /// Congestion window in segments.
    pub window: u32,
    /// Slow start threshold in segments.
    pub threshold: u32,
    /// Largest payload of a segment that is sent, in bytes.
    pub send_segment: u32,
    /// Largest payload of a segment that has come, in bytes.
    pub receive_segment: u32,
    /// Segments sent again, ever.
    pub retransmitted: u32,
    /// Bytes that the peer has acknowledged, ever.
    pub acknowledged: u64,
    /// Bytes received, ever.
    pub received: u64,
    /// Segments on their way.
    pub unacknowledged: u32,
    /// Bytes not sent yet.
    pub unsent: u32,
    /// Bits as in tcpi_options: timestamps 1, SACK 2, window scaling 4, ECN 8.
    pub options: u8,
    /// Shift of the peer's window.
    pub send_shift: u8,
    /// Shift of our window.
    pub receive_shift: u8,
    /// Segments sent, ever.
    pub segments_out: u32,
    /// Segments received, ever.
    pub segments_in: u32,
    /// Congestion control: 0 the default, 1 reno, 2 cubic, 3 dctcp, 4 timely.
    pub congestion: u8,
}

impl Socket {
    /// Connections that wait at a listener to be accepted.
    pub fn waiting_connections(&self) -> u32 {
        let Ok(slot) = self.slot() else { return 0 };
        let tail = slot.words.rx_tail.load(Ordering::Acquire);
        let head = slot.words.rx_head.load(Ordering::Acquire);
        u32::try_from(tail.saturating_sub(head)).unwrap_or(u32::MAX)
    }

    /// What is known about the connection; up to date if the daemon answers soon.
    pub fn info(&self) -> SocketInfo {
        let Ok(slot) = self.slot() else {
            return SocketInfo { state: CLOSE, ..SocketInfo::default() };
        };
        let view = slot.view();
        let is_served = !self.is_local() && matches!(view.phase, Phase::Open | Phase::Connecting);
        if is_served {
            let before = slot.words.info_version.load(Ordering::Acquire);
            slot.ask(Asks::INFO);
            let until = clock::now() + if before == 0 { FIRST_TIMEOUT } else { TIMEOUT };
            while slot.words.info_version.load(Ordering::Acquire) == before && clock::now() < until
            {
                thread::sched_yield();
            }
            fence(Ordering::Acquire);
        }
        let info = SocketInfo {
            acknowledged: slot.unacknowledged().map_or(0, |written| written.head),
            received: slot.unread().map_or(0, |unread| unread.tail),
            ..read(slot.words)
        };
        let state = match view.phase {
            Phase::Listening => LISTEN,
            Phase::Closed => CLOSE,
            _ if is_served && info.state != 0 => info.state,
            Phase::Connecting => SYN_SENT,
            Phase::Open => match (view.is_write_shut, view.is_peer_done) {
                (false, false) => ESTABLISHED,
                (false, true) => CLOSE_WAIT,
                (true, false) => FIN_WAIT2,
                (true, true) => CLOSE,
            },
        };
        SocketInfo { state, ..info }
    }
}

/// Of include/net/tcp_states.h.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const FIN_WAIT2: u8 = 5;
const CLOSE: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;

fn read(words: &SlotWords) -> SocketInfo {
    let word = |which| words.info(which);
    let number = |which| u32::try_from(word(which)).unwrap_or(u32::MAX);
    let halves = |which| ((word(which) >> 32) as u32, word(which) as u32);
    let (send_segment, receive_segment) = halves(SlotInfo::Segments);
    let (segments_out, segments_in) = halves(SlotInfo::Counts);
    let options = word(SlotInfo::Options);
    SocketInfo {
        state: word(SlotInfo::State) as u8,
        rtt_us: number(SlotInfo::Rtt),
        rtt_variation_us: number(SlotInfo::RttVariation),
        rtt_min_us: number(SlotInfo::RttMin),
        rto_us: number(SlotInfo::Rto),
        window: number(SlotInfo::Window),
        threshold: number(SlotInfo::Threshold),
        send_segment,
        receive_segment,
        retransmitted: number(SlotInfo::Retransmitted),
        acknowledged: word(SlotInfo::Acknowledged),
        received: word(SlotInfo::Received),
        unacknowledged: number(SlotInfo::Unacknowledged),
        unsent: number(SlotInfo::Unsent),
        options: options as u8,
        send_shift: (options >> 8) as u8,
        receive_shift: (options >> 16) as u8,
        segments_out,
        segments_in,
        congestion: word(SlotInfo::Congestion) as u8,
    }
}
