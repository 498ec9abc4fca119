//! The rest of a flow's state: what matters when something but the next expected segment happens.

use base::{FlowHash, Nanos};

use crate::congestion::Congestion;
use crate::delayed::Eager;
use crate::pmtu::Search;
use crate::reassembly::Reassembly;
use crate::recovery::Recovery;
use crate::rtt::Rtt;
use crate::scoreboard::Scoreboard;
use crate::{CloseReason, FlowOptions, ListenerId, Seq};

/// What the retransmission timer is for at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Send again what is not acknowledged (RFC 6298).
    #[default]
    Retransmit,
    /// Send something to learn whether the last segments were lost (RFC 8985 section 7).
    TailProbe,
    /// Give late segments up (RFC 8985 section 6.3).
    Reorder,
    /// Ask whether a closed window has opened (RFC 9293 section 3.8.6.1).
    Persist,
    /// What is to be done, and when, has not been worked out: the timer's time is that of the
    /// segment that started it. See [`crate::expire::postpone`].
    Open,
}

/// When something has to happen; [`Nanos::FAR_FUTURE`]: never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub(crate) retransmit: Nanos,
    /// An acknowledgement has waited long enough.
    pub(crate) ack: Nanos,
    /// Before that nothing new leaves, if the flow is paced; far in the future: it may leave now.
    pub(crate) pace: Nanos,
    /// Keep-alive, and the end of FIN-WAIT-2 and TIME-WAIT.
    pub(crate) life: Nanos,
}

impl Timers {
    /// The first of them.
    #[inline]
    pub(crate) fn first(&self) -> Nanos {
        // A pace that has elapsed is no deadline.
        let pace = if crate::pacing::is_elapsed(self.pace) { Nanos::FAR_FUTURE } else { self.pace };
        self.retransmit.min(self.ack).min(self.life).min(pace)
    }
}

/// A flow's cold state. In the order of use: what the common cases look at comes first, in four
/// cache lines, wherever the first begins.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Cold {
    pub(crate) timers: Timers,
    /// When something last came from the peer.
    pub(crate) heard_at: Nanos,
    /// When payload last came; before any: when the connection came to stand.
    pub(crate) data_at: Nanos,
    /// When the peer last took something, or data was sent while nothing was on its way, or a
    /// closed window was first asked about.
    pub(crate) progress_at: Nanos,
    /// Most segments that were on their way since the window was full last, and the number with
    /// which that time ends: a window that is not used does not grow.
    pub(crate) used: u32,
    pub(crate) used_until: Seq,
    pub(crate) rtt: Rtt,
    /// The largest window the peer has announced.
    pub(crate) snd_wnd_max: u32,
    /// The largest payload that came.
    pub(crate) rcv_mss: u16,
    /// Of `timers.retransmit`.
    pub(crate) purpose: Purpose,
    /// The retransmission timer starts anew.
    pub(crate) rearm: bool,
    pub(crate) board: Scoreboard,
    pub(crate) congestion: Congestion,
    /// How long acknowledgements wait.
    pub(crate) eager: Eager,
    /// Timeouts in a row without progress.
    pub(crate) retries: u8,
    /// Questions in a row without an answer.
    pub(crate) probes: u8,
    /// The application knows of the flow, so that it has to hear of its end.
    pub(crate) is_announced: bool,
    /// A range that came twice, to be told to the peer (RFC 2883); an empty one: none did.
    pub(crate) duplicate: (Seq, Seq),
    pub(crate) options: FlowOptions,
    /// What is known of the path's MTU.
    pub(crate) search: Search,
    /// The number of the peer's FIN, once it has come.
    pub(crate) fin: Option<Seq>,
    /// Our first number.
    pub(crate) iss: Seq,
    /// Microseconds that late segments may still take; zero: RACK waits for none.
    pub(crate) reorder_wait_us: u32,
    /// Late segments get no more time before this is acknowledged.
    pub(crate) patient_until: Seq,
    pub(crate) reassembly: Reassembly,
    pub(crate) recovery: Recovery,
    /// Behind the last urgent byte to send, while [`Flags::URGENT`](crate::flow::Flags::URGENT).
    pub(crate) snd_up: Seq,
    /// Number of the peer's urgent byte, once
    /// [`Flags::URGENT_HEARD`](crate::flow::Flags::URGENT_HEARD).
    pub(crate) rcv_up: Seq,
    /// Before that no other challenge is sent, in milliseconds (wraps); zero: one may be.
    pub(crate) challenge_ms: u32,
    pub(crate) listener: Option<ListenerId>,
    /// The hash under which the table has it.
    pub(crate) hash: FlowHash,
    /// Its place among the flows that are over but not closed by their application.
    pub(crate) ended_at: u32,
    /// Why it is to be reset, if it is; until then what the last router said, if one had something
    /// to say.
    pub(crate) reason: CloseReason,
}

const _: () = assert!(
    std::mem::offset_of!(Cold, options) + size_of::<FlowOptions>() <= 7 * 32,
    "what the common cases look at is in four cache lines, even if it begins in the middle of one"
);

const _: () = assert!(
    size_of::<Cold>() + size_of::<crate::flow::Flow>() + crate::wheel::ENTRY_BYTES + 16 <= 512,
    "an idle flow, its places in wheel and table included, costs at most 512 bytes"
);

impl Cold {
    pub(crate) fn new(
        options: FlowOptions,
        listener: Option<ListenerId>,
        iss: Seq,
        now: Nanos,
    ) -> Self {
        Self {
            rtt: Rtt::default(),
            timers: Timers {
                retransmit: Nanos::FAR_FUTURE,
                ack: Nanos::FAR_FUTURE,
                pace: Nanos::FAR_FUTURE,
                life: Nanos::FAR_FUTURE,
            },
            purpose: Purpose::Retransmit,
            congestion: Congestion::new(options.congestion),
            board: Scoreboard::new(iss),
            recovery: Recovery::default(),
            reassembly: Reassembly::EMPTY,
            duplicate: (Seq(0), Seq(0)),
            used: 0,
            used_until: iss,
            snd_up: iss,
            rcv_up: Seq(0),
            search: Search::default(),
            fin: None,
            options,
            listener,
            iss,
            hash: FlowHash(0),
            reorder_wait_us: 0,
            patient_until: iss,
            data_at: now,
            heard_at: now,
            progress_at: now,
            challenge_ms: 0,
            snd_wnd_max: 0,
            rcv_mss: crate::options::DEFAULT_MSS_V4,
            eager: Eager::NEW,
            retries: 0,
            probes: 0,
            rearm: false,
            is_announced: false,
            ended_at: u32::MAX,
            reason: CloseReason::Aborted,
        }
    }

    /// Looks at each of the cache lines that the common cases use, and returns something of all of
    /// them.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        let Self { timers, snd_wnd_max, board, options, .. } = self;
        timers.retransmit.0
            ^ u64::from(*snd_wnd_max)
            ^ u64::from(board.reordering())
            ^ u64::from(options.no_delay)
    }

    /// How long sent data may stay unacknowledged, if the application has said so.
    pub(crate) fn user_timeout(&self) -> Option<Nanos> {
        self.options.user_timeout_ms.map(|ms| Nanos::from_millis(u64::from(ms.get())))
    }

    /// What a router said explains no silence that begins later: the peer was heard (as in Linux).
    /// A flow about which one has said something is slow, so that every segment says so.
    pub(crate) fn forget_unreachable(&mut self) {
        if matches!(self.reason, CloseReason::Unreachable(_)) {
            self.reason = CloseReason::Aborted;
        }
    }

    /// Bytes of the receive ring.
    #[inline]
    pub(crate) const fn receive_ring(&self) -> u32 {
        1 << self.options.receive_ring_log2
    }

    /// Bytes that the receive ring may grow to.
    #[inline]
    pub(crate) const fn receive_limit(&self) -> u32 {
        1 << self.options.receive_limit_log2
    }

    /// Bytes of the send ring.
    #[inline]
    pub(crate) const fn send_ring(&self) -> u32 {
        1 << self.options.send_ring_log2
    }
}
