//! Settings of a socket that its application writes into the slot.

use std::num::{NonZeroU8, NonZeroU16};

use base::Nanos;
use shm::sockets::{SlotOption, SlotWords};
use tcp::{Algorithm, Engine, FlowId, FlowOptions, IpFields, KeepAlive};

use crate::app_sockets::AppSockets;

/// The lower two bits of a class, which are ECN's (RFC 3168 section 5).
const ECN_BITS: u8 = 0b11;

/// What a socket's packets have in their IP headers: IP_TOS and IP_TTL, or IPV6_TCLASS and
/// IPV6_UNICAST_HOPS.
pub(super) fn ip_fields(words: &SlotWords, is_ipv6: bool) -> IpFields {
    let (class, hops) = match is_ipv6 {
        true => (SlotOption::TrafficClass, SlotOption::HopLimit),
        false => (SlotOption::TypeOfService, SlotOption::TimeToLive),
    };
    let default = IpFields::default();
    let hop_limit = match words.option(hops) as u8 {
        0 => default.hop_limit,
        hops => hops,
    };
    IpFields { class: words.option(class) as u8, hop_limit }
}

/// The same for TCP, whose engine says what the ECN bits are.
fn segment_fields(words: &SlotWords, is_ipv6: bool) -> IpFields {
    let fields = ip_fields(words, is_ipv6);
    IpFields { class: fields.class & !ECN_BITS, ..fields }
}

fn syn_retries(words: &SlotWords) -> u8 {
    u8::try_from(words.option(SlotOption::SynCount)).unwrap_or(u8::MAX)
}

/// The settings that count from a connection's first segment on.
pub(super) fn first_options(words: &SlotWords, base: FlowOptions, is_ipv6: bool) -> FlowOptions {
    let asked = u16::try_from(words.option(SlotOption::MaxSegment)).unwrap_or(u16::MAX);
    let asked = NonZeroU16::new(asked);
    let mss_max = base.mss_max.into_iter().chain(asked).min();
    FlowOptions {
        mss_max,
        rate_max: words.option(SlotOption::PacingRate),
        syn_retries: syn_retries(words),
        defer_accept: FlowOptions::timeouts_in(words.option(SlotOption::DeferAccept)),
        ip: segment_fields(words, is_ipv6),
        ..base
    }
}

/// Settings that the engine carries out. False: one of them is not permitted, and stays as it was.
pub(super) fn apply_options(
    words: &SlotWords,
    app: &AppSockets,
    flow: FlowId,
    engine: &mut Engine,
    now: Nanos,
) -> bool {
    let option = |which| words.option(which);
    let _ = engine.set_no_delay(flow, option(SlotOption::NoDelay) != 0);
    let _ = engine.set_cork(flow, option(SlotOption::Cork) != 0);
    let is_ipv6 = engine.key(flow).is_some_and(|key| key.is_ipv6());
    let _ = engine.set_ip_fields(flow, segment_fields(words, is_ipv6));
    let _ = engine.set_rate_max(flow, option(SlotOption::PacingRate));
    let _ = engine.set_syn_retries(flow, syn_retries(words));
    let timeout = option(SlotOption::UserTimeout);
    let _ = engine.set_user_timeout(flow, (timeout != 0).then_some(timeout));
    let default = KeepAlive::default();
    let or = |which, value: u32| match option(which) {
        0 => value,
        set => set,
    };
    let keep_alive = (option(SlotOption::KeepAlive) != 0).then(|| KeepAlive {
        idle_s: or(SlotOption::KeepIdle, default.idle_s),
        interval_s: or(SlotOption::KeepInterval, u32::from(default.interval_s)) as u16,
        probes: NonZeroU8::new(option(SlotOption::KeepCount) as u8).unwrap_or(default.probes),
    });
    let _ = engine.set_keep_alive(now, flow, keep_alive);
    let chosen = match option(SlotOption::Congestion) {
        0 => return true,
        number => algorithm(u64::from(number)).filter(|chosen| app.congestions.contains(chosen)),
    };
    chosen.is_some_and(|chosen| {
        let _ = engine.set_congestion(flow, chosen);
        true
    })
}

/// Congestion controls as [`SlotOption::Congestion`] numbers them, from one on.
pub(super) const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Timely];

fn algorithm(number: u64) -> Option<Algorithm> {
    ALGORITHMS.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}
