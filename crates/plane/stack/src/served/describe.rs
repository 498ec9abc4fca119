//! What an application is told about a connection when it asks (TCP_INFO, and what `ss` shows).

use std::sync::atomic::Ordering;

use base::Nanos;
use shm::sockets::{SlotInfo, SlotWords};
use tcp::{Engine, FlowId, FlowInfo, State, TimerKind};

use super::Conn;
use super::options::ALGORITHMS;

/// Brings what is told about the connection up to date.
pub(super) fn describe(words: &SlotWords, conn: &Conn, flow: FlowId, engine: &Engine, now: Nanos) {
    let Some(info) = engine.info(flow) else { return };
    let set = |which, value: u64| words.info_word(which).store(value, Ordering::Relaxed);
    let micros = |time: Nanos| time.0 / 1000;
    set(SlotInfo::State, engine.state(flow).map_or(7, linux_state));
    set(SlotInfo::Rtt, info.round_trip.map_or(0, micros));
    set(SlotInfo::RttVariation, micros(info.round_trip_variation));
    set(SlotInfo::RttMin, info.shortest_round_trip.map_or(0, micros));
    set(SlotInfo::Rto, micros(info.timeout));
    set(SlotInfo::Window, u64::from(info.window));
    set(SlotInfo::Threshold, u64::from(info.threshold));
    set(SlotInfo::Segments, u64::from(info.snd_mss) << 32 | u64::from(info.rcv_mss));
    set(SlotInfo::Unacknowledged, u64::from(info.on_their_way));
    set(SlotInfo::Unsent, u64::from(info.unsent_bytes));
    set(SlotInfo::SendWindow, u64::from(info.snd_wnd));
    let unread = u64::from(engine.readable(flow).bytes);
    set(SlotInfo::Acknowledged, conn.tx_tail.saturating_sub(u64::from(info.queued_bytes)));
    set(SlotInfo::Received, conn.rx_head + unread);
    let control = ALGORITHMS.iter().position(|one| *one == info.congestion);
    set(SlotInfo::Congestion, control.map_or(0, |at| at as u64 + 1));
    set(SlotInfo::Options, agreed(&info));
    set(SlotInfo::Timer, timer(&info, now));
}

/// What was agreed on, as [`SlotInfo::Options`] has it.
fn agreed(info: &FlowInfo) -> u64 {
    let [timestamps, sack, ecn] = info.agreed.map(u64::from);
    let scaling =
        info.shifts.map_or(0, |[peer, own]| 4 | u64::from(peer) << 8 | u64::from(own) << 16);
    timestamps | sack << 1 | ecn << 3 | scaling
}

/// The timer that runs, as [`SlotInfo::Timer`] has it.
fn timer(info: &FlowInfo, now: Nanos) -> u64 {
    let Some((kind, due)) = info.timer else { return 0 };
    let (number, expirations) = match kind {
        TimerKind::Retransmit => (1, info.retries),
        TimerKind::KeepAlive => (2, info.probes),
        TimerKind::TimeWait => (3, 0),
        TimerKind::Persist => (4, info.probes),
    };
    let left_ms = (due.since(now).0 / 1_000_000).min(u64::from(u32::MAX));
    left_ms << 32 | u64::from(expirations) << 8 | number
}

/// As include/net/tcp_states.h numbers them.
fn linux_state(state: State) -> u64 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}
