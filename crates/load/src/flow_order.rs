//! Which flow the next request belongs to.

use std::fmt;

use serde::Serialize;

use crate::Random;

/// An order of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum FlowOrder {
    /// Any flow at any time, evenly.
    #[default]
    Random,
    /// One after the other: every flow is seen before any is seen twice.
    RoundRobin,
}

impl FlowOrder {
    /// The flow, of `flows`, of the request with this index.
    #[inline]
    pub(crate) fn flow(self, index: u64, flows: u32, random: &mut Random) -> u32 {
        match self {
            Self::Random => random.below(flows),
            Self::RoundRobin => (index % u64::from(flows.max(1))) as u32,
        }
    }
}

impl fmt::Display for FlowOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_robin_sees_every_flow_before_any_twice() {
        let mut random = Random::new(1);
        let mut order: Vec<u32> =
            (0..50).map(|index| FlowOrder::RoundRobin.flow(index, 50, &mut random)).collect();
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn random_order_stays_within_the_flows() {
        let mut random = Random::new(2);
        assert!((0..1000).all(|index| FlowOrder::Random.flow(index, 7, &mut random) < 7));
    }
}
