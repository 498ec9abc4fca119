//! What another TCP must know to go on with a connection, so that its peer notices nothing: the
//! kernel's, by TCP_REPAIR of tcp(7).
//!
//! A plan and no more: nothing is sent, and the flow goes on unless it is [let
//! go](crate::Engine::let_go). The bytes stay in the caller's rings, where the record says.

use std::fmt;

use base::Nanos;
use wire::FlowKey;

use crate::cold::Cold;
use crate::emit::stamp;
use crate::engine::Span;
use crate::flow::{Flags, Flow, State};
use crate::{Engine, FlowId, Seq};

/// Bytes that timestamps take of every segment's payload: what the peer's MSS does not count.
const TIMESTAMPS_BYTES: u16 = 12;

/// A connection at one moment. Out-of-order data is not part of it: the peer sends that again
/// (RFC 2018 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Its name, as segments that come in have it: the peer is the source.
    pub key: FlowKey,
    /// Number of the first byte of `queued`: the first that the peer has not acknowledged.
    pub send_first: Seq,
    /// Bytes in the send ring that the peer has not acknowledged.
    pub queued: Span,
    /// Of these, from the first on, those that were sent at least once.
    pub sent_bytes: u32,
    /// Number of the first byte of `unread`.
    pub receive_first: Seq,
    /// Bytes in the receive ring that the application has not taken; all are acknowledged or will
    /// be.
    pub unread: Span,
    /// The peer has closed its side: its FIN has the number behind `unread`, and was taken. Who
    /// goes on has to be given it again.
    pub has_peer_closed: bool,
    /// Ours is closed: a FIN has the number behind `queued`, sent or not. One that is sent again
    /// does no harm.
    pub is_shut: bool,
    /// Both windows.
    pub window: RepairWindow,
    /// Payload of a full segment on the way out, as a peer would announce it: without the bytes
    /// that timestamps take.
    pub mss: u16,
    /// Shifts of the peer's windows and of ours; zero: windows are not scaled.
    pub shifts: [u8; 2],
    /// Our timestamps' clock in milliseconds, if timestamps were agreed on.
    pub timestamp: Option<u32>,
    /// Whether selective acknowledgements were agreed on.
    pub sack: bool,
}

/// Both windows, as `struct tcp_repair_window` of linux/tcp.h has them; in bytes, unscaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairWindow {
    /// Number of the segment that `snd_wnd` came from.
    pub snd_wl1: Seq,
    /// The peer's window, from the first byte on that it has not acknowledged.
    pub snd_wnd: u32,
    /// The largest window that the peer has announced.
    pub snd_wnd_max: u32,
    /// Ours, from `rcv_wup` on.
    pub rcv_wnd: u32,
    /// The number that was acknowledged when it was announced.
    pub rcv_wup: Seq,
}

/// Why a connection cannot be gone on with elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRepair {
    /// It is over, or never was.
    Gone,
    /// It does not stand yet, or is about to be reset.
    NotEstablished,
    /// Urgent data is on its way, or was not read past: where it is cannot be told.
    Urgent,
}

impl fmt::Display for NoRepair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "it is over",
            Self::NotEstablished => "it does not stand yet, or is about to be reset",
            Self::Urgent => "urgent data is under way",
        })
    }
}

impl std::error::Error for NoRepair {}

impl Engine {
    /// What another TCP must know to go on with the flow as it is at `now`.
    ///
    /// # Errors
    /// It cannot, for the reason given.
    pub fn repair(&self, id: FlowId, now: Nanos) -> Result<Repair, NoRepair> {
        let (flow, cold) = self.flow(id).ok_or(NoRepair::Gone)?;
        plan(flow, cold, now)
    }
}

fn plan(flow: &Flow, cold: &Cold, now: Nanos) -> Result<Repair, NoRepair> {
    let has_peer_closed = match flow.state {
        State::Established | State::FinWait1 | State::FinWait2 => false,
        State::CloseWait | State::Closing | State::LastAck => true,
        State::TimeWait | State::Closed => return Err(NoRepair::Gone),
        State::SynSent | State::SynReceived => return Err(NoRepair::NotEstablished),
    };
    if flow.flags.has(Flags::ABORT) {
        return Err(NoRepair::NotEstablished);
    }
    let is_urgent_out = flow.flags.has(Flags::URGENT) && cold.snd_up.is_after(flow.snd_una);
    let is_urgent_in = flow.flags.has(Flags::URGENT_HEARD) && !cold.rcv_up.is_before(flow.rcv_read);
    if is_urgent_out || is_urgent_in {
        return Err(NoRepair::Urgent);
    }
    let place = |at: Seq, ring_bytes: u32| (at.0 & ring_bytes.wrapping_sub(1)) as usize;
    let queued = flow.queued();
    let has_timestamps = flow.flags.has(Flags::TIMESTAMPS);
    // Of ours the peer may have acknowledged the FIN; of the peer's we have.
    let send_first = flow.snd_una.earlier(flow.snd_end);
    let received_end = Seq(flow.rcv_nxt.0.wrapping_sub(u32::from(has_peer_closed)));
    // The edge that was promised is what counts: the peer may send up to it.
    let rcv_wup = flow.rcv_acked.earlier(received_end);
    let edge = flow.rcv_adv.later(flow.rcv_nxt);
    Ok(Repair {
        key: flow.key,
        send_first,
        queued: Span { at: place(send_first, cold.send_ring()), bytes: queued },
        sent_bytes: flow.snd_nxt.since(flow.snd_una).min(queued),
        receive_first: flow.rcv_read.earlier(received_end),
        unread: Span {
            at: place(flow.rcv_read, cold.receive_ring()),
            bytes: received_end.since(flow.rcv_read.earlier(received_end)),
        },
        has_peer_closed,
        is_shut: flow.flags.has(Flags::FIN_QUEUED),
        window: RepairWindow {
            snd_wl1: flow.snd_wl1.earlier(received_end),
            snd_wnd: flow.snd_wnd,
            snd_wnd_max: cold.snd_wnd_max.max(flow.snd_wnd),
            rcv_wnd: edge.since(rcv_wup),
            rcv_wup,
        },
        mss: flow.mss + if has_timestamps { TIMESTAMPS_BYTES } else { 0 },
        shifts: match flow.flags.has(Flags::SCALING) {
            true => [flow.snd_shift(), flow.rcv_shift()],
            false => [0, 0],
        },
        timestamp: has_timestamps.then(|| stamp(flow, now)),
        sack: flow.flags.has(Flags::SACK),
    })
}
