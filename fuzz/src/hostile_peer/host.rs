//! An engine with its rings: one of the two between which groups move, or the honest peer's.

use base::Nanos;
use tcp::{Config, Engine, FlowOptions, ListenerId};

use super::sink::{FLOWS_MAX, Rings};

/// Segments on their way, and out-of-order ranges, that every flow always gets beside what all
/// share, which is twice what one may have alone (see [`Config::sent_max`]).
const SENT_FLOOR: u32 = 16;
const RANGES_FLOOR: u32 = 4;

/// An engine, and what it may hold.
pub(super) struct Host {
    pub(super) engine: Engine,
    pub(super) rings: Rings,
    pub(super) flows_max: usize,
    pub(super) records_max: (u32, u32),
    pub(super) listener: Option<ListenerId>,
}

impl Host {
    pub(super) fn new(config: Config, options: &FlowOptions, now: Nanos) -> Self {
        let flows_max = config.flows_max as usize;
        let most = |floor: u32, each: u32| config.flows_max * floor + 2 * each;
        let records_max =
            (most(SENT_FLOOR, config.sent_max), most(RANGES_FLOOR, config.ranges_max));
        assert!(flows_max <= FLOWS_MAX);
        Self {
            engine: Engine::new(config, [7; 16], now),
            rings: Rings::new(1 << options.receive_ring_log2, 1 << options.send_ring_log2),
            flows_max,
            records_max,
            listener: None,
        }
    }
}
