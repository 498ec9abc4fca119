//! The record from which another process can continue a flow after this engine is gone: a few words
//! that can be copied at any moment, and what another TCP must know according to them.
//!
//! Both ways lead through here: that of a connection that is [let go](Engine::let_go) in order, and
//! that of one whose engine died, of which nothing is left but its record and its rings.

use base::Nanos;
use wire::FlowKey;

use crate::cold::Cold;
use crate::engine::Span;
use crate::flow::{Flags, Flow, State, timestamp_clock};
use crate::repair::{NoRepair, Repair, RepairWindow};
use crate::{Engine, FlowId, Seq};

/// Bytes that timestamps take of every segment's payload: what the peer's MSS does not count.
const TIMESTAMPS_BYTES: u16 = 12;

/// All that is to be known of a flow but its name and its rings, as plain words: those that change
/// together lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord([u64; Self::WORDS]);

/// Which word is what, the first in the low half.
mod word {
    /// First number not acknowledged, and the next to send.
    pub(super) const SENT: usize = 0;
    /// Behind the last byte that was queued, and the next number expected.
    pub(super) const NEXT: usize = 1;
    /// First number that was not read, and the one acknowledged last.
    pub(super) const READ: usize = 2;
    /// Right edge of our window, and the number that the peer's window came from.
    pub(super) const EDGE: usize = 3;
    /// The peer's window, and the largest that it was.
    pub(super) const WINDOW: usize = 4;
    /// Flags; 16 bits of MSS; 8 of the state; 8 of both shifts.
    pub(super) const FACTS: usize = 5;
    /// What is added to the clock in timestamps, and whether urgent data is under way.
    pub(super) const REST: usize = 6;
}

#[inline]
const fn pair(low: Seq, high: Seq) -> u64 {
    low.0 as u64 | (high.0 as u64) << 32
}

impl FlowRecord {
    /// How many words there are.
    pub const WORDS: usize = 7;

    #[inline]
    fn of(flow: &Flow, cold: &Cold) -> Self {
        let is_urgent = flow.flags.has(Flags::EITHER_URGENT) && has_urgent(flow, cold);
        let facts = u64::from(flow.flags.bits())
            | u64::from(flow.mss) << 32
            | (flow.state as u64) << 48
            | u64::from(flow.shifts()) << 56;
        Self([
            pair(flow.snd_una, flow.snd_nxt),
            pair(flow.snd_end, flow.rcv_nxt),
            pair(flow.rcv_read, flow.rcv_acked),
            pair(flow.rcv_adv, flow.snd_wl1),
            u64::from(flow.snd_wnd) | u64::from(cold.snd_wnd_max) << 32,
            facts,
            u64::from(flow.ts_offset) | u64::from(is_urgent) << 32,
        ])
    }

    /// The words, to be written down.
    #[inline]
    pub const fn words(&self) -> &[u64; Self::WORDS] {
        &self.0
    }

    /// A record that was written down.
    pub const fn of_words(words: [u64; Self::WORDS]) -> Self {
        Self(words)
    }

    const fn low(&self, at: usize) -> Seq {
        Seq(self.0[at] as u32)
    }

    const fn high(&self, at: usize) -> Seq {
        Seq((self.0[at] >> 32) as u32)
    }

    fn flags(&self) -> Flags {
        Flags::of_bits(self.0[word::FACTS] as u32)
    }

    /// Bytes that are queued and not acknowledged.
    pub fn queued_bytes(&self) -> u32 {
        let (first, end) = (self.low(word::SENT), self.low(word::NEXT));
        if first.is_after(end) { 0 } else { end.since(first) }
    }

    /// The peer has closed its side: its FIN is the number before the next expected.
    fn has_peer_closed(&self) -> Result<bool, NoRepair> {
        const STATES: [State; 10] = [
            State::SynSent,
            State::SynReceived,
            State::Established,
            State::FinWait1,
            State::FinWait2,
            State::Closing,
            State::TimeWait,
            State::CloseWait,
            State::LastAck,
            State::Closed,
        ];
        let number = usize::from((self.0[word::FACTS] >> 48) as u8);
        match STATES.get(number).ok_or(NoRepair::Gone)? {
            State::Established | State::FinWait1 | State::FinWait2 => Ok(false),
            State::CloseWait | State::Closing | State::LastAck => Ok(true),
            State::TimeWait | State::Closed => Err(NoRepair::Gone),
            State::SynSent | State::SynReceived => Err(NoRepair::NotEstablished),
        }
    }

    /// Bytes that were received and not read.
    fn unread_bytes(&self, has_peer_closed: bool) -> u32 {
        let end = self.received_end(has_peer_closed);
        end.since(self.low(word::READ).earlier(end))
    }

    fn received_end(&self, has_peer_closed: bool) -> Seq {
        Seq(self.high(word::NEXT).0.wrapping_sub(u32::from(has_peer_closed)))
    }

    /// The record of the flow after `bytes` more were read; none when fewer have come.
    pub fn after_reading(mut self, bytes: u32) -> Option<Self> {
        if bytes == 0 {
            return Some(self);
        }
        let has_peer_closed = self.has_peer_closed().ok()?;
        if bytes > self.unread_bytes(has_peer_closed) {
            return None;
        }
        self.0[word::READ] = pair(self.low(word::READ) + bytes, self.high(word::READ));
        Some(self)
    }

    /// What another TCP must know to go on with the flow called `key` at `now`; `rings` are the
    /// bytes of its receive ring and of its send ring.
    ///
    /// # Errors
    /// It cannot, for the reason given.
    pub fn repair(&self, key: FlowKey, rings: [u32; 2], now: Nanos) -> Result<Repair, NoRepair> {
        let has_peer_closed = self.has_peer_closed()?;
        let flags = self.flags();
        if flags.has(Flags::ABORT) {
            return Err(NoRepair::NotEstablished);
        }
        if self.high(word::REST).0 != 0 {
            return Err(NoRepair::Urgent);
        }
        let place = |at: Seq, ring_bytes: u32| (at.0 & ring_bytes.wrapping_sub(1)) as usize;
        let queued = self.queued_bytes();
        let has_timestamps = flags.has(Flags::TIMESTAMPS);
        let (snd_una, snd_nxt) = (self.low(word::SENT), self.high(word::SENT));
        let (snd_end, rcv_nxt) = (self.low(word::NEXT), self.high(word::NEXT));
        let (rcv_read, rcv_acked) = (self.low(word::READ), self.high(word::READ));
        let (rcv_adv, snd_wl1) = (self.low(word::EDGE), self.high(word::EDGE));
        let (snd_wnd, snd_wnd_max) = (self.low(word::WINDOW).0, self.high(word::WINDOW).0);
        let facts = self.0[word::FACTS];
        let (mss, shifts) = ((facts >> 32) as u16, (facts >> 56) as u8);
        // Of ours the peer may have acknowledged the FIN; of the peer's we have.
        let send_first = snd_una.earlier(snd_end);
        let received_end = self.received_end(has_peer_closed);
        // The edge that was promised is what counts: the peer may send up to it.
        let rcv_wup = rcv_acked.earlier(received_end);
        let edge = rcv_adv.later(rcv_nxt);
        Ok(Repair {
            key,
            send_first,
            queued: Span { at: place(send_first, rings[1]), bytes: queued },
            sent_bytes: snd_nxt.since(snd_una).min(queued),
            receive_first: rcv_read.earlier(received_end),
            unread: Span {
                at: place(rcv_read, rings[0]),
                bytes: self.unread_bytes(has_peer_closed),
            },
            has_peer_closed,
            is_shut: flags.has(Flags::FIN_QUEUED),
            window: RepairWindow {
                snd_wl1: snd_wl1.earlier(received_end),
                snd_wnd,
                snd_wnd_max: snd_wnd_max.max(snd_wnd),
                rcv_wnd: edge.since(rcv_wup),
                rcv_wup,
            },
            mss: mss + if has_timestamps { TIMESTAMPS_BYTES } else { 0 },
            shifts: match flags.has(Flags::SCALING) {
                true => [shifts >> 4, shifts & 0xf],
                false => [0, 0],
            },
            timestamp: has_timestamps
                .then(|| timestamp_clock(now).wrapping_add(self.low(word::REST).0)),
            sack: flags.has(Flags::SACK),
        })
    }
}

/// Urgent data is on its way, or was not read past: where it is cannot be told.
#[cold]
fn has_urgent(flow: &Flow, cold: &Cold) -> bool {
    let is_urgent_out = flow.flags.has(Flags::URGENT) && cold.snd_up.is_after(flow.snd_una);
    let is_urgent_in = flow.flags.has(Flags::URGENT_HEARD) && !cold.rcv_up.is_before(flow.rcv_read);
    is_urgent_out || is_urgent_in
}

impl Engine {
    /// What is to be kept of a flow: see [`FlowRecord`]. Nothing: it is over.
    #[inline]
    pub fn record(&self, id: FlowId) -> Option<FlowRecord> {
        let (flow, cold) = self.flow(id)?;
        Some(FlowRecord::of(flow, cold))
    }

    /// What another TCP must know to go on with the flow as it is at `now`.
    ///
    /// # Errors
    /// It cannot, for the reason given.
    pub fn repair(&self, id: FlowId, now: Nanos) -> Result<Repair, NoRepair> {
        let (flow, cold) = self.flow(id).ok_or(NoRepair::Gone)?;
        FlowRecord::of(flow, cold).repair(flow.key, [cold.receive_ring(), cold.send_ring()], now)
    }
}
