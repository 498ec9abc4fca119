//! Which flow the next request belongs to.

use std::fmt;

use serde::Serialize;

use crate::{Random, Zipf};

/// An order of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum FlowOrder {
    /// Any flow at any time, evenly.
    #[default]
    #[value(alias = "uniform")]
    Random,
    /// One after the other: every flow is seen before any is seen twice.
    RoundRobin,
    /// Any flow at any time, the first ones most often, by Zipf's law.
    Zipf,
}

/// Picks flows, or keys.
#[derive(Clone, Debug)]
pub(crate) enum Pick {
    Random(u32),
    RoundRobin(u32),
    Zipf(Zipf),
}

impl Pick {
    /// Out of `count`; `exponent` is that of Zipf's law.
    pub(crate) fn new(order: FlowOrder, count: u32, exponent: f64) -> Self {
        match order {
            FlowOrder::Random => Self::Random(count),
            FlowOrder::RoundRobin => Self::RoundRobin(count),
            FlowOrder::Zipf => Self::Zipf(Zipf::new(count, exponent)),
        }
    }

    /// The one for the request with this index.
    #[inline]
    pub(crate) fn at(&self, index: u64, random: &mut Random) -> u32 {
        match self {
            Self::Random(count) => random.below(*count),
            Self::RoundRobin(count) => (index % u64::from((*count).max(1))) as u32,
            Self::Zipf(zipf) => zipf.draw(random),
        }
    }
}

impl fmt::Display for FlowOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
            Self::Zipf => "Zipf",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_robin_sees_every_flow_before_any_twice() {
        let mut random = Random::new(1);
        let pick = Pick::new(FlowOrder::RoundRobin, 50, 0.0);
        let mut order: Vec<u32> = (0..50).map(|index| pick.at(index, &mut random)).collect();
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn random_orders_stay_within_the_flows() {
        let mut random = Random::new(2);
        for order in [FlowOrder::Random, FlowOrder::Zipf] {
            let pick = Pick::new(order, 7, 0.99);
            assert!((0..1000).all(|index| pick.at(index, &mut random) < 7));
        }
    }
}
