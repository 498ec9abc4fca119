//! TCP_INFO: the engine's numbers under Linux's names.

use base::Nanos;
use tcp::{FlowInfo, Phase};

use crate::code::Names;

/// Linux's numbers of what a sender is in.
const PHASES: [(&str, i64); 5] = [
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
];

/// Linux's value for a threshold that nothing has set yet.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Puts the numbers of `info` where code finds them.
pub(super) fn describe(info: &FlowInfo, now: Nanos, names: &mut Names) {
    let micros = |length: Nanos| i64::try_from(length.0 / 1000).unwrap_or(i64::MAX);
    let millis_since = |at: Nanos| micros(now.since(at)) / 1000;
    let ca_state = match info.phase {
        Phase::Open => "TCP_CA_Open",
        Phase::Disorder => "TCP_CA_Disorder",
        Phase::Marked => "TCP_CA_CWR",
        Phase::Recovery => "TCP_CA_Recovery",
        Phase::Timeout => "TCP_CA_Loss",
    };
    let ca_state = PHASES.iter().find(|(name, _)| *name == ca_state).map_or(0, |(_, state)| *state);
    let counts = [
        ("snd_cwnd", info.window),
        ("snd_ssthresh", info.threshold.min(NO_THRESHOLD)),
        ("unacked", info.on_their_way),
        ("sacked", info.sacked),
        ("lost", info.lost),
        ("retrans", info.again),
        ("reordering", info.reordering),
        ("snd_mss", info.snd_mss.into()),
        ("rcv_mss", info.rcv_mss.into()),
        ("advmss", info.own_mss.into()),
        ("probes", info.probes.into()),
        ("backoff", info.backoff.into()),
        ("retransmits", info.retries.into()),
        ("snd_wnd", info.snd_wnd),
        ("rcv_wnd", info.rcv_wnd),
    ];
    let mut put = |name: &str, value: i64| names.insert(format!("tcpi_{name}"), value);
    for (name, count) in counts {
        put(name, count.into());
    }
    put("ca_state", ca_state);
    put("rtt", micros(info.round_trip.unwrap_or_default()));
    put("min_rtt", micros(info.shortest_round_trip.unwrap_or_default()));
    put("rto", micros(info.timeout));
    put("last_data_recv", millis_since(info.data_heard_at));
    names.extend(PHASES.map(|(name, state)| (name.to_string(), state)));
}
