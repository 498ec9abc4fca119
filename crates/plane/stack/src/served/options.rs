//! Settings of a connection that its application writes into the slot.

use base::Nanos;
use shm::sockets::{SlotOption, SlotWords};
use tcp::{Algorithm, Engine, FlowId, KeepAlive};

use crate::app_sockets::AppSockets;

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
        probes: or(SlotOption::KeepCount, u32::from(default.probes)) as u8,
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
