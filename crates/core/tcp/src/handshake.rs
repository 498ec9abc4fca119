//! The exchange of SYNs, from either side or from both at once (RFC 9293 section 3.5).

use std::num::NonZeroU16;

use base::Nanos;
use piece::ReadPiece;
use wire::{FlowKey, tcp};

use crate::cold::{Cold, Purpose};
use crate::emit::{offer, stamp};
use crate::flow::{Flags, Flow, State};
use crate::io::{Buffers, Output, Segment};
use crate::options::{
    DEFAULT_MSS_V4, DEFAULT_MSS_V6, OptionBytes, Parsed, TIMESTAMPS_BYTES, Timestamps,
};
use crate::shared::{Shared, Turn};
use crate::{Algorithm, Config, FlowOptions, ListenerId, Seq, pacing, pmtu, window};

/// The largest payload that we take: what our MTU leaves beside both headers, or less if the
/// application wants it so.
pub(crate) fn own_mss(config: &Config, key: &FlowKey, options: &FlowOptions) -> u16 {
    let ip_bytes =
        if key.is_ipv6() { wire::ipv6::HEADER_BYTES } else { wire::ipv4::MIN_HEADER_BYTES };
    let mtu = config.mtu.min(config.path_mtu.max(576));
    let mss = mtu.saturating_sub(ip_bytes + tcp::MIN_HEADER_BYTES);
    options.mss_max.map_or(mss, |limit| limit.get().min(mss))
}

/// A flow that has sent or received nothing yet.
pub(crate) fn new_flow(
    shared: &Shared,
    key: FlowKey,
    state: State,
    options: FlowOptions,
    listener: Option<ListenerId>,
    iss: Seq,
    now: Nanos,
) -> (Flow, Cold) {
    let mut flow = Flow::new(key, state, iss);
    flow.ts_offset = shared.secret.timestamp_offset(&key);
    flow.window.segments = shared.config.initial_window.max(1);
    flow.flags.put(Flags::NO_DELAY, options.no_delay);
    flow.flags.put(Flags::PACED, pacing::is_wanted(&options));
    flow.flags.set(Flags::SLOW);
    (flow, Cold::new(options, listener, iss, now))
}

/// Takes over what the peer's SYN says; `has_ecn` is whether both sides want ECN.
pub(crate) fn learn(
    flow: &mut Flow,
    cold: &mut Cold,
    config: &Config,
    header: &tcp::Header,
    options: &Parsed,
    has_ecn: bool,
) {
    let irs = Seq(header.sequence);
    flow.rcv_nxt = irs + 1;
    (flow.rcv_read, flow.rcv_acked) = (flow.rcv_nxt, irs);
    // Until our SYN has named a window, the peer was promised none.
    flow.rcv_adv = flow.rcv_nxt;
    // No window scaling: none of the two sides scales (RFC 7323 section 2.2).
    let shifts = options.shift.filter(|_| config.window_scaling);
    let own = window::shift_for(cold.receive_limit());
    flow.flags.put(Flags::SCALING, shifts.is_some());
    match shifts {
        Some(peer) => flow.set_shifts(peer, own),
        None => flow.set_shifts(0, 0),
    }
    flow.snd_wnd = u32::from(header.window);
    cold.snd_wnd_max = flow.snd_wnd;
    flow.snd_wl1 = irs;
    let stamps = options.timestamps.filter(|_| config.timestamps);
    flow.flags.put(Flags::TIMESTAMPS, stamps.is_some());
    flow.ts_recent = stamps.map_or(0, |stamps| stamps.value);
    flow.flags.put(Flags::SACK, options.sack_permitted && config.sack);
    flow.flags.put(Flags::ECN, has_ecn);
    set_mss(flow, cold, config, options.mss);
}

/// Sets the payload of a full segment, from what the peer takes.
fn set_mss(flow: &mut Flow, cold: &mut Cold, config: &Config, peer: Option<u16>) {
    let default = if flow.key.is_ipv6() { DEFAULT_MSS_V6 } else { DEFAULT_MSS_V4 };
    let peer_mss = peer.unwrap_or(default);
    flow.mss = full_segment(flow, cold, config, peer_mss);
    cold.search = pmtu::Search::new(flow, config, peer_mss);
}

/// The payload of a full segment to a peer that takes `peer_mss` bytes, by a path of which nothing
/// is known.
pub(crate) fn full_segment(flow: &Flow, cold: &Cold, config: &Config, peer_mss: u16) -> u16 {
    let mss = peer_mss.min(own_mss(config, &flow.key, &cold.options));
    let options = if flow.flags.has(Flags::TIMESTAMPS) { TIMESTAMPS_BYTES } else { 0 };
    // A peer that announces next to nothing cannot make us send next to nothing a packet: below 48
    // headers only (Linux's tcp_min_snd_mss, CVE-2019-11479).
    mss.max(MSS_MIN.get()).saturating_sub(options).max(1)
}

/// The smallest MSS that is honoured.
pub(crate) const MSS_MIN: NonZeroU16 = NonZeroU16::MIN.saturating_add(47);

/// Offers the SYN or SYN-ACK that is owed. False: the caller has no room.
pub(crate) fn emit_syn<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    flow: &mut Flow,
    cold: &mut Cold,
) -> bool {
    let config = &turn.shared.config;
    let is_answer = flow.state == State::SynReceived;
    let mut options = OptionBytes::NONE;
    options.mss(own_mss(config, &flow.key, &cold.options));
    // An answer agrees to what was offered; an offer names all.
    let flags = flow.flags;
    let has_sack = if is_answer { flags.has(Flags::SACK) } else { config.sack };
    let has_stamps = if is_answer { flags.has(Flags::TIMESTAMPS) } else { config.timestamps };
    let value = stamp(flow, turn.now);
    let stamps = has_stamps.then_some(Timestamps { value, echo: flow.ts_recent });
    options.syn_options(has_sack, stamps);
    let is_scaling = if is_answer { flags.has(Flags::SCALING) } else { config.window_scaling };
    if is_scaling {
        options.window_scale(window::shift_for(cold.receive_limit()));
    }
    let ecn = match (is_answer, flags.has(Flags::ECN)) {
        // RFC 3168 section 6.1.1. Asked again, a SYN asks for less: something may drop it for that.
        (false, _) if wants_ecn(&cold.options) && cold.retries == 0 => tcp::ECE | tcp::CWR,
        (true, true) => tcp::ECE,
        _ => 0,
    };
    let field = window::syn_field(cold);
    let segment = Segment {
        key: flow.key.reversed(),
        sequence: cold.iss,
        acknowledgement: if is_answer { flow.rcv_nxt } else { Seq(0) },
        flags: tcp::SYN | ecn | if is_answer { tcp::ACK } else { 0 },
        window: field,
        urgent: 0,
        options,
        payload: [ReadPiece::EMPTY; 2],
        ecn: 0,
        ip: cold.options.ip,
        route: flow.route,
    };
    if !offer(turn.out, &segment) {
        return false;
    }
    turn.shared.counters.transmitted += 1;
    flow.snd_nxt = cold.iss + 1;
    if is_answer {
        flow.rcv_adv = flow.rcv_adv.later(flow.rcv_nxt + u32::from(field));
        flow.rcv_acked = flow.rcv_nxt;
        flow.flags.clear(Flags::ACK_NOW);
    }
    flow.flags.clear(Flags::SYN_OWED);
    if cold.retries == 0 {
        // The time of the first SYN: its answer is the first round trip.
        cold.progress_at = turn.now;
    }
    cold.purpose = Purpose::Retransmit;
    cold.timers.retransmit = turn.now + cold.rtt.rto_backed_off(&turn.shared.config);
    if let Some(limit) = cold.user_timeout().filter(|_| cold.retries > 0) {
        let last = (cold.progress_at + limit).max(turn.now + Nanos(1));
        cold.timers.retransmit = cold.timers.retransmit.min(last);
    }
    true
}

/// Whether a flow asks for ECN.
pub(crate) fn wants_ecn(options: &FlowOptions) -> bool {
    options.ecn || options.congestion == Algorithm::Dctcp
}

/// Whether a handshake is left where it is though its last acknowledgement has come, one without
/// data if it `is_bare`: nobody takes the connection now, or data is waited for (TCP_DEFER_ACCEPT).
pub(crate) fn is_left<B, O: Output>(
    turn: &mut Turn<'_, B, O>,
    flow: &mut Flow,
    cold: &Cold,
    is_bare: bool,
) -> bool {
    let Some(listener) = cold.listener else { return false };
    if is_bare && cold.retries < cold.options.defer_accept {
        turn.shared.counters.accepts_deferred += 1;
        flow.snd_una = cold.iss + 1;
        return true;
    }
    let is_full = !turn.out.may_accept(listener, cold.hash);
    turn.shared.counters.backlog_full += u64::from(is_full);
    is_full
}

/// Whether the peer has acknowledged our SYN, and only its data is waited for.
pub(crate) fn awaits_data(flow: &Flow, cold: &Cold) -> bool {
    flow.state == State::SynReceived
        && flow.snd_una == cold.iss + 1
        && cold.retries < cold.options.defer_accept
}

/// Both SYNs are acknowledged.
pub(crate) fn establish(flow: &mut Flow, cold: &mut Cold, shared: &mut Shared, now: Nanos) {
    flow.state = State::Established;
    flow.snd_una = cold.iss + 1;
    flow.snd_small = flow.snd_una;
    if cold.retries == 0 {
        cold.rtt.sample(now.since(cold.progress_at), now);
    } else {
        // RFC 6298 section 5.7 and RFC 5681 section 3.1: a lost SYN is a sign of a full network.
        flow.window.segments = flow.window.segments.min(3);
    }
    (cold.retries, cold.rtt.backoff, cold.probes) = (0, 0, 0);
    cold.timers.retransmit = Nanos::FAR_FUTURE;
    (cold.progress_at, cold.data_at) = (now, now);
    shared.counters.connected += 1;
    if let Some(keep_alive) = cold.options.keep_alive {
        cold.timers.life = now + Nanos::from_secs(u64::from(keep_alive.idle_s));
    }
}
