//! A flow's hot state: two cache lines with everything that an expected segment needs.

use base::Nanos;
use wire::FlowKey;

use crate::Seq;
use crate::congestion::Window;
use crate::pool::List;

/// The names of RFC 9293 section 3.3.2; LISTEN is a listener's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Our SYN is on its way.
    SynSent,
    /// Our SYN-ACK is on its way.
    SynReceived,
    /// Data may flow both ways.
    Established,
    /// We have closed and wait for the acknowledgement.
    FinWait1,
    /// Ours is acknowledged, the peer may still send.
    FinWait2,
    /// Both have closed at once.
    Closing,
    /// Everything is done, but old segments may still be about.
    TimeWait,
    /// The peer has closed.
    CloseWait,
    /// So have we, and wait for the acknowledgement.
    LastAck,
    /// Both sides are through and the name is free; the application has not yet closed it, and may
    /// still read.
    Closed,
}

impl State {
    /// Whether both SYNs have been exchanged.
    #[inline]
    pub(crate) const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived)
    }

    /// Whether data may still come in.
    #[inline]
    pub(crate) const fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether the application's data, or a FIN behind it, may still have to go out.
    #[inline]
    pub(crate) const fn may_send(self) -> bool {
        matches!(
            self,
            Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck
        )
    }
}

/// Facts about a flow, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Flags {
            $($(#[$doc])* pub(crate) const $name: Self = Self(1 << $bit);)*
        }
    };
}

flags! {
    /// An acknowledgement is owed now.
    ACK_NOW = 0;
    /// It is in the engine's queue of flows to look at.
    QUEUED = 1;
    /// The application has been told of bytes to read in this batch.
    READABLE_TOLD = 2;
    /// The application has closed its side: a FIN follows the last byte.
    FIN_QUEUED = 3;
    /// Small segments leave at once.
    NO_DELAY = 4;
    /// Partial segments wait for more.
    CORK = 5;
    /// Timestamps were agreed on.
    TIMESTAMPS = 6;
    /// Selective acknowledgements were agreed on.
    SACK = 7;
    /// ECN was agreed on.
    ECN = 8;
    /// A congestion mark has come: echo it.
    ECHO_CONGESTION = 9;
    /// The window was reduced for an echoed mark: say so on the next new data.
    CWR_OWED = 10;
    /// Something is going on that `fast.rs` knows nothing of.
    SLOW = 11;
    /// The application is gone: nobody will read.
    ORPHAN = 12;
    /// The application met a full send ring and waits for room.
    WANTS_ROOM = 13;
    /// We opened it.
    ACTIVE = 14;
    /// A timer says: send what there is, whatever Nagle, CORK and small windows say.
    FORCE = 15;
    /// The last timer asks for a probe of the window.
    PROBE = 16;
    /// The congestion window, not the application, was what held data back.
    WINDOW_LIMITED = 17;
    /// DCTCP: the last segment bore a congestion mark.
    LAST_MARKED = 18;
    /// The application will write more: what is there is no end of a message.
    MORE = 19;
    /// Data goes out soon after other came in: acknowledgements ride on answers.
    PING_PONG = 20;
    /// A SYN or SYN-ACK has to go out.
    SYN_OWED = 21;
    /// The last segment has to be sent again as a loss probe.
    TAIL_PROBE = 22;
    /// A keep-alive question has to go out.
    ASK = 23;
    /// It is to be reset.
    ABORT = 24;
    /// The application has read: the window may have opened so far that the peer should hear of it.
    READ = 25;
    /// Window scaling was agreed on.
    SCALING = 26;
    /// Its place is in use.
    LIVE = 27;
    /// A partial segment waits for more until something is acknowledged.
    HELD = 28;
    /// Urgent data is on its way or waits to be sent.
    URGENT = 29;
    /// The peer has sent urgent data that was not read past.
    URGENT_HEARD = 30;
    /// New segments leave at a pace.
    PACED = 31;
}

impl Flags {
    /// Whatever keeps a flow from sending what was written as it is.
    pub(crate) const UNUSUAL: Self = Self(
        Self::SLOW.0
            | Self::FIN_QUEUED.0
            | Self::CORK.0
            | Self::MORE.0
            | Self::HELD.0
            | Self::FORCE.0
            | Self::PROBE.0
            | Self::TAIL_PROBE.0
            | Self::ASK.0
            | Self::SYN_OWED.0
            | Self::ABORT.0
            | Self::PACED.0,
    );

    /// Urgent data, whichever way.
    pub(crate) const EITHER_URGENT: Self = Self(Self::URGENT.0 | Self::URGENT_HEARD.0);

    /// What marks segments.
    pub(crate) const MARKING: Self = Self(Self::ECN.0 | Self::URGENT.0);
    /// What a look at the flow ends.
    pub(crate) const SEEN: Self = Self(Self::QUEUED.0 | Self::READABLE_TOLD.0);

    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// All of them.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Those that were [all](Self::bits).
    pub(crate) const fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    #[inline]
    pub(crate) const fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    #[inline]
    pub(crate) const fn put(&mut self, other: Self, on: bool) {
        if on { self.set(other) } else { self.clear(other) }
    }
}

/// What a segment in order, or an acknowledgement of one, reads and writes.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Flow {
    /// As segments that come in have it: the peer is the source.
    pub(crate) key: FlowKey,
    /// Next number expected.
    pub(crate) rcv_nxt: Seq,
    /// Right edge of the window that the peer was promised.
    pub(crate) rcv_adv: Seq,
    /// First number that the application has not taken. Quiet: equal to `rcv_nxt`.
    pub(crate) rcv_read: Seq,
    /// The number acknowledged last. Quiet: equal to `rcv_nxt`.
    pub(crate) rcv_acked: Seq,
    /// First number not acknowledged by the peer. Quiet: equal to `snd_nxt`.
    pub(crate) snd_una: Seq,
    /// Next number to send.
    pub(crate) snd_nxt: Seq,
    /// Behind the last byte that the application has queued. Quiet: equal to `snd_nxt`.
    pub(crate) snd_end: Seq,
    /// Behind the last segment that was not full, for Nagle.
    pub(crate) snd_small: Seq,
    /// The peer's window, scaled.
    pub(crate) snd_wnd: u32,
    /// Sequence number of the segment that `snd_wnd` came from. What RFC 9293 keeps beside it,
    /// SND.WL2, is never ahead of `snd_una`, which stands for it.
    pub(crate) snd_wl1: Seq,
    /// Congestion window.
    pub(crate) window: Window,
    /// Segments on their way, oldest first, in the engine's pool.
    pub(crate) sent: List,
    /// The peer's clock as last seen in order (RFC 7323 section 4.3).
    pub(crate) ts_recent: u32,
    /// Payload of a full segment: the peer's MSS and our MTU, without the options of every segment.
    pub(crate) mss: u16,
    pub(crate) state: State,
    /// Shift of the peer's windows in the high half, of ours in the low half.
    shifts: u8,
    pub(crate) flags: Flags,
    /// Added to the clock in our timestamps, so that they tell nobody how long we are up.
    pub(crate) ts_offset: u32,
    /// Tells this flow from those that had its place before.
    pub(crate) generation: u32,
    /// How the last segment that was accepted came, in the caller's terms; so answers leave.
    pub(crate) route: u32,
}

const _: () = assert!(size_of::<Flow>() == 128, "a hot flow is two cache lines");

impl Flow {
    /// A flow about which nothing is known yet but its name and our first number.
    pub(crate) fn new(key: FlowKey, state: State, iss: Seq) -> Self {
        Self {
            key,
            rcv_nxt: Seq(0),
            rcv_adv: Seq(0),
            rcv_read: Seq(0),
            rcv_acked: Seq(0),
            snd_una: iss,
            snd_nxt: iss,
            snd_end: iss + 1,
            snd_small: iss,
            snd_wnd: 0,
            snd_wl1: Seq(0),
            window: Window::default(),
            sent: List::EMPTY,
            ts_recent: 0,
            mss: crate::options::DEFAULT_MSS_V4,
            state,
            shifts: 0,
            flags: Flags::default(),
            ts_offset: 0,
            generation: 0,
            route: 0,
        }
    }

    /// Looks at both cache lines, and returns something of both.
    #[inline]
    pub(crate) const fn touch(&self) -> u64 {
        (self.rcv_nxt.0 ^ self.flags.0) as u64
    }

    /// Shift of the peer's windows.
    #[inline]
    pub(crate) const fn snd_shift(&self) -> u8 {
        self.shifts >> 4
    }

    /// Shift of our windows.
    #[inline]
    pub(crate) const fn rcv_shift(&self) -> u8 {
        self.shifts & 0xf
    }

    /// Both at once, as they are kept.
    #[inline]
    pub(crate) const fn shifts(&self) -> u8 {
        self.shifts
    }

    /// Both at once; each at most 14.
    pub(crate) const fn set_shifts(&mut self, snd: u8, rcv: u8) {
        self.shifts = (snd << 4) | (rcv & 0xf);
    }

    /// Bytes that the peer may still send.
    #[inline]
    pub(crate) const fn rcv_wnd(&self) -> u32 {
        // The peer's FIN may lie one behind the edge.
        if self.rcv_nxt.is_after(self.rcv_adv) { 0 } else { self.rcv_adv.since(self.rcv_nxt) }
    }

    /// Bytes that wait to be sent for the first time.
    #[inline]
    pub(crate) const fn unsent(&self) -> u32 {
        if self.snd_nxt.is_after(self.snd_end) { 0 } else { self.snd_end.since(self.snd_nxt) }
    }

    /// Bytes that the application has queued and the peer has not acknowledged.
    #[inline]
    pub(crate) const fn queued(&self) -> u32 {
        // Before the connection stands the SYN's number is still in between; afterwards a FIN's may
        // be behind.
        let first = self.snd_una.0.wrapping_add(!self.state.is_synchronized() as u32);
        if Seq(first).is_after(self.snd_end) { 0 } else { self.snd_end.since(Seq(first)) }
    }

    /// Whether our FIN has been sent.
    #[inline]
    pub(crate) const fn fin_sent(&self) -> bool {
        self.snd_nxt.is_after(self.snd_end)
    }

    /// Whether a FIN waits to be sent for the first time.
    #[inline]
    pub(crate) const fn fin_owed(&self) -> bool {
        self.flags.has(Flags::FIN_QUEUED) && !self.fin_sent()
    }

    /// Whether a silent peer may be asked if it is there: the end of a state that does not last has
    /// the same timer, and a closed one has none.
    #[inline]
    pub(crate) const fn may_be_asked(&self) -> bool {
        let does_not_last = matches!(self.state, State::TimeWait | State::Closed)
            || (matches!(self.state, State::FinWait2) && self.flags.has(Flags::ORPHAN));
        self.state.is_synchronized() && !does_not_last
    }

    /// What the peer's window still takes.
    #[inline]
    pub(crate) const fn usable(&self) -> u32 {
        let edge = Seq(self.snd_una.0.wrapping_add(self.snd_wnd));
        if self.snd_nxt.is_after(edge) { 0 } else { edge.since(self.snd_nxt) }
    }
}

/// What every flow's timestamps count: milliseconds, as Linux's do.
#[inline]
pub(crate) const fn timestamp_clock(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_before_the_connection_stands_is_the_syn_no_queued_byte_even_after_4_gib() {
        let key: FlowKey = "tcp 10.0.0.1:5000 -> 10.0.0.2:7".parse().expect("it is a flow");
        let iss = Seq(u32::MAX - 10);
        let mut flow = Flow::new(key, State::SynSent, iss);
        flow.snd_end += 100;
        assert_eq!(flow.queued(), 100);
        flow.snd_una = iss + 1;
        flow.state = State::Established;
        assert_eq!(flow.queued(), 100);
        // Once around: what is acknowledged is the first number again.
        (flow.snd_una, flow.snd_end) = (iss, iss + 100);
        assert_eq!(flow.queued(), 100);
    }
}
