//! What can be told about a flow: for people, for exporters, and for getsockopt's TCP_INFO.

use base::Nanos;

use crate::cold::{Cold, Purpose};
use crate::flow::{Flags, Flow, State};
use crate::shared::Shared;
use crate::{Algorithm, expire, handshake, recovery};

/// What a sender is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing special.
    Open,
    /// Something has arrived before its turn, and nothing counts as lost yet.
    Disorder,
    /// The window falls because of a congestion mark.
    Marked,
    /// The window falls because of a loss that acknowledgements told of.
    Recovery,
    /// A timeout: slow start from one segment.
    Timeout,
}

/// The present state of a flow. Windows of congestion control count segments, others bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// What the sender is in.
    pub phase: Phase,
    /// Congestion window.
    pub window: u32,
    /// Slow start's end; [`u32::MAX`] before anything was lost.
    pub threshold: u32,
    /// Segments sent and not acknowledged.
    pub on_their_way: u32,
    /// Those of them that the peer has reported.
    pub sacked: u32,
    /// Those that count as lost.
    pub lost: u32,
    /// Those of the lost that are on their way again.
    pub again: u32,
    /// Segments by which a late one was overtaken at most, three at least (RFC 4653).
    pub reordering: u32,
    /// Payload of a full segment on the way out.
    pub snd_mss: u16,
    /// The largest payload that came.
    pub rcv_mss: u16,
    /// The MSS that the peer was told.
    pub own_mss: u16,
    /// Questions in a row without an answer.
    pub probes: u8,
    /// Doublings of the timeout.
    pub backoff: u8,
    /// Timeouts in a row without progress.
    pub retries: u8,
    /// What the peer's window takes.
    pub snd_wnd: u32,
    /// The largest window that the peer has announced.
    pub snd_wnd_max: u32,
    /// What ours takes.
    pub rcv_wnd: u32,
    /// Bytes of the application that the peer has not acknowledged.
    pub queued_bytes: u32,
    /// Those of them that were never sent.
    pub unsent_bytes: u32,
    /// Smoothed round trip, once there is one.
    pub round_trip: Option<Nanos>,
    /// Shortest of the last minutes.
    pub shortest_round_trip: Option<Nanos>,
    /// Mean deviation of round trips.
    pub round_trip_variation: Nanos,
    /// Retransmission timeout, doublings included.
    pub timeout: Nanos,
    /// When payload last came; before any: when the connection came to stand.
    pub data_heard_at: Nanos,
    /// Congestion control.
    pub congestion: Algorithm,
    /// Timestamps, selective acknowledgements and ECN: which were agreed on.
    pub agreed: [bool; 3],
    /// Shifts of the peer's windows and of ours, if windows are scaled.
    pub shifts: Option<[u8; 2]>,
    /// What the flow waits for, and when that comes.
    pub timer: Option<(TimerKind, Nanos)>,
}

/// What a flow's timer is for, as `ss` tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// Something that was sent is not acknowledged.
    Retransmit,
    /// The peer is asked whether it is there.
    KeepAlive,
    /// The end of TIME-WAIT.
    TimeWait,
    /// The peer is asked whether its window has opened.
    Persist,
}

/// Describes a flow.
pub(crate) fn describe(flow: &Flow, cold: &Cold, shared: &Shared) -> FlowInfo {
    let config = &shared.config;
    let board = &cold.board;
    let phase = match cold.recovery.phase {
        recovery::Phase::Open if board.sacked > 0 => Phase::Disorder,
        recovery::Phase::Open => Phase::Open,
        recovery::Phase::Marked => Phase::Marked,
        recovery::Phase::Recovery => Phase::Recovery,
        recovery::Phase::Timeout => Phase::Timeout,
    };
    FlowInfo {
        phase,
        window: flow.window.segments,
        threshold: flow.window.threshold,
        on_their_way: flow.sent.len(),
        sacked: board.sacked,
        lost: board.lost,
        again: board.again,
        reordering: board.reordering(),
        snd_mss: flow.mss,
        rcv_mss: cold.rcv_mss,
        own_mss: handshake::own_mss(config, &flow.key, &cold.options),
        probes: cold.probes,
        backoff: cold.rtt.backoff,
        retries: cold.retries,
        snd_wnd: flow.snd_wnd,
        snd_wnd_max: cold.snd_wnd_max,
        rcv_wnd: flow.rcv_wnd(),
        queued_bytes: flow.queued(),
        unsent_bytes: flow.unsent().min(flow.queued()),
        round_trip: cold.rtt.smoothed(),
        round_trip_variation: cold.rtt.variation(),
        shortest_round_trip: cold.rtt.shortest(),
        timeout: cold.rtt.rto_backed_off(config),
        data_heard_at: cold.data_at,
        congestion: cold.options.congestion,
        agreed: [Flags::TIMESTAMPS, Flags::SACK, Flags::ECN].map(|flag| flow.flags.has(flag)),
        shifts: flow.flags.has(Flags::SCALING).then(|| [flow.snd_shift(), flow.rcv_shift()]),
        timer: timer(flow, cold, shared),
    }
}

fn timer(flow: &Flow, cold: &Cold, shared: &Shared) -> Option<(TimerKind, Nanos)> {
    let due = |at: Nanos| (at != Nanos::FAR_FUTURE).then_some(at);
    if flow.state == State::TimeWait {
        return Some((TimerKind::TimeWait, due(cold.timers.life)?));
    }
    if let Some(at) = due(cold.timers.retransmit) {
        return Some(match cold.purpose {
            Purpose::Persist => (TimerKind::Persist, at),
            Purpose::Open => (TimerKind::Retransmit, expire::postponed(flow, cold, shared)),
            _ => (TimerKind::Retransmit, at),
        });
    }
    cold.options.keep_alive?;
    Some((TimerKind::KeepAlive, due(cold.timers.life)?))
}
