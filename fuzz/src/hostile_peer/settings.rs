//! How the engine under test is set up, from the first bytes of a program.

use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};

use base::Nanos;
use tcp::{Algorithm, Config, FlowOptions, KeepAlive};
use wire::Toeplitz;

use super::program::Program;

/// The dispatcher's key, as far as the engine knows.
pub(super) const HASH_KEY: [u8; 40] = Toeplitz::MICROSOFT_KEY;

/// Everything that is settled before the first segment.
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) options: FlowOptions,
    pub(super) backlog: u32,
    /// What hostile peers offer in a SYN.
    pub(super) peer_mss: u16,
    pub(super) peer_shift: u8,
    /// Whether there is an honest peer, and whether it is the one that connects.
    pub(super) has_honest: bool,
    pub(super) is_honest_client: bool,
}

impl Settings {
    pub(super) fn read(program: &mut Program<'_>) -> Self {
        let [one, two, three, four] = [(); 4].map(|()| program.byte());
        let on = |bits: u8, bit: u32| bits >> bit & 1 == 0;
        let mtu = Program::pick(four, 0, [1500, 600]);
        let config = Config {
            flows_max: Program::pick(three, 0, [8, 4, 5, 6]),
            hash_key: HASH_KEY,
            sent_max: Program::pick(three, 2, [64, 4, 8, 24]),
            ranges_max: Program::pick(three, 4, [16, 2, 4, 16]),
            ranges_per_flow_max: Program::pick(three, 6, [8, 2]),
            mtu,
            path_mtu: if on(one, 0) { u16::MAX } else { 576 },
            mtu_probing: !on(one, 0),
            mtu_floor: 576,
            window_scaling: on(one, 1),
            timestamps: on(one, 2),
            sack: on(one, 3),
            tail_probe: on(one, 4),
            syn_retries: 2,
            syn_ack_retries: 1,
            retries: 4,
            rto_max: Nanos::from_secs(8),
            time_wait: Nanos::from_secs(2),
            initial_window: Program::pick(four, 1, [10, 1]),
            ..Config::default()
        };
        let congestion = Program::pick(
            two,
            0,
            [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Dctcp, Algorithm::Timely],
        );
        let keep_alive = KeepAlive { idle_s: 1, interval_s: 1, probes: NonZeroU8::MIN };
        let receive_ring_log2 = Program::pick(two, 2, [10, 8, 9, 11]);
        let options = FlowOptions {
            receive_ring_log2,
            receive_limit_log2: receive_ring_log2 + 1,
            send_ring_log2: Program::pick(two, 4, [10, 8, 9, 11]),
            mss_max: Program::pick(four, 2, [None, NonZeroU16::new(64)]),
            congestion,
            ecn: !on(one, 5),
            no_delay: !on(one, 6),
            pacing: !on(one, 7),
            keep_alive: Program::pick(four, 3, [None, Some(keep_alive)]),
            user_timeout_ms: Program::pick(four, 4, [None, NonZeroU32::new(700)]),
            defer_accept: Program::pick(three, 5, [0, 3]),
            ..FlowOptions::default()
        };
        Self {
            config,
            options,
            backlog: Program::pick(two, 6, [8, 0, 1, 2]),
            peer_mss: Program::pick(three, 7, [1460, 100]),
            peer_shift: Program::pick(four, 7, [0, 7]),
            has_honest: on(four, 5),
            is_honest_client: on(four, 6),
        }
    }
}
