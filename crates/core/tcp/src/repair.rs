//! What another TCP must know to go on with a connection, so that its peer notices nothing: the
//! kernel's, by TCP_REPAIR of tcp(7).
//!
//! A plan and no more: nothing is sent, and the flow goes on unless it is [let
//! go](crate::Engine::let_go). The bytes stay in the caller's rings, where the record says.

use std::fmt;

use wire::FlowKey;

use crate::Seq;
use crate::engine::Span;

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
