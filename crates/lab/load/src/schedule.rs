//! The requests of an open loop, in order: fixed by plan and seed, whatever the server does.
//!
//! Computed as it is used instead of stored: an hour of it needs no more memory than a second, and
//! the same seed gives the same requests on every machine.

use base::Nanos;

use crate::arrival::Arrivals;
use crate::flow_order::Pick;
use crate::{Arrival, Distribution, Pace, Plan, Profile, Random, Request, ShardCount};

/// The requests of one shard. Their times count from the start of the run.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    content: Content,
    end: Nanos,
    next_index: u64,
}

/// What requests are about, besides their time.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    flows: Pick,
    distribution: Distribution,
    iterations: u64,
    random: Random,
}

impl Content {
    /// Of one shard; `plan` is that shard's.
    pub(crate) fn new(plan: &Plan, shard: ShardCount) -> Self {
        let Plan { flows, flow_order, zipf_exponent, distribution, iterations, .. } = *plan;
        let random = Random::new(stream(plan.seed, shard, 1));
        let flows = Pick::new(flow_order, flows, zipf_exponent);
        Self { flows, distribution, iterations, random }
    }

    /// The request with this index.
    #[inline]
    pub(crate) fn request(&mut self, index: u64, intended: Nanos) -> Request {
        let Self { flows, distribution, iterations, random } = self;
        let flow = flows.at(index, random);
        let iterations = distribution.sample(*iterations, random);
        Request { index, intended, flow, iterations }
    }
}

impl Schedule {
    /// The schedule of one shard of `plan`. A closed loop has none: its schedule is empty.
    pub fn new(plan: &Plan, shard: ShardCount) -> Self {
        let plan = plan.of_shard(shard);
        let level = Profile::LEVEL;
        let (arrival, rate, profile, end) = match plan.pace {
            Pace::Open { arrival, rate } => {
                (arrival, rate, &plan.profile, plan.warmup + plan.length)
            }
            Pace::Closed { .. } => (Arrival::Constant, 1.0, &level, Nanos::ZERO),
        };
        let phase = f64::from(shard.shard) / f64::from(shard.shards.max(1));
        // Times have a stream of their own: another distribution of work leaves them unchanged.
        let random = Random::new(stream(plan.seed, shard, 0));
        Self {
            arrivals: Arrivals::new(arrival, rate, profile, phase, random),
            content: Content::new(&plan, shard),
            end,
            next_index: 0,
        }
    }
}

impl Iterator for Schedule {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        let at = self.arrivals.next().filter(|at| *at < self.end)?;
        let index = self.next_index;
        self.next_index += 1;
        Some(self.content.request(index, at))
    }
}

/// A seed for one of a shard's streams.
fn stream(seed: u64, shard: ShardCount, number: u64) -> u64 {
    Random::new(seed ^ (u64::from(shard.shard) << 1 | number).wrapping_mul(0xd6e8_feb8_6659_fd93))
        .bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Piece;

    fn plan(rate: f64) -> Plan {
        Plan {
            pace: Pace::Open { arrival: Arrival::Poisson, rate },
            flows: 100,
            length: Nanos::from_secs(1),
            ..Plan::default()
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_requests_and_another_seed_others() {
        let requests = |seed| -> Vec<_> {
            Schedule::new(&Plan { seed, ..plan(10e3) }, ShardCount::ALONE).collect()
        };
        assert_eq!(requests(5), requests(5));
        let (five, six) = (requests(5), requests(6));
        assert!(five.iter().zip(&six).all(|(a, b)| a.intended != b.intended));
    }

    #[test]
    fn another_distribution_of_work_leaves_the_times_unchanged() {
        let times = |distribution| -> Vec<_> {
            let plan = Plan { distribution, iterations: 100, ..plan(10e3) };
            Schedule::new(&plan, ShardCount::ALONE).map(|request| request.intended).collect()
        };
        assert_eq!(times(Distribution::Zero), times(Distribution::Bimodal1));
    }

    #[test]
    fn shards_share_the_rate_and_differ() {
        let shards = [0, 1, 2, 3].map(|shard| -> Vec<_> {
            Schedule::new(&plan(40e3), ShardCount { shard, shards: 4 }).collect()
        });
        for requests in &shards {
            // 10,000 with standard deviation 100.
            assert!((9_500..10_500).contains(&requests.len()), "{}", requests.len());
            assert!(requests.iter().all(|request| request.flow < 25));
        }
        assert_ne!(shards[0][0].intended, shards[1][0].intended);
    }

    #[test]
    fn constant_shards_together_are_constant() {
        let pace = Pace::Open { arrival: Arrival::Constant, rate: 1000.0 };
        let plan = Plan { pace, ..plan(1.0) };
        let mut times: Vec<u64> = (0..4)
            .flat_map(|shard| Schedule::new(&plan, ShardCount { shard, shards: 4 }))
            .map(|request| request.intended.0)
            .collect();
        times.sort_unstable();
        assert_eq!(times.len(), 1000);
        assert!(times.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(1_000_000) <= 1));
    }

    #[test]
    fn indexes_count_up_and_times_never_step_back() {
        let requests: Vec<_> = Schedule::new(&plan(50e3), ShardCount::ALONE).collect();
        for (index, pair) in requests.windows(2).enumerate() {
            assert_eq!(pair[0].index, index as u64);
            assert!(pair[0].intended <= pair[1].intended);
        }
        assert!(requests.iter().all(|request| request.intended < Nanos::from_secs(1)));
    }

    #[test]
    fn steps_shared_by_shards_have_the_requests_of_each_step_exactly() {
        let steps = [100.0, 300.0, 200.0].map(|rate| Piece::level(rate, Nanos::from_secs(1)));
        let profile = Profile::new(steps.to_vec()).expect("it is possible");
        let warmup = vec![Piece::level(100.0, Nanos::from_secs(2))];
        let pace = Pace::Open { arrival: Arrival::Constant, rate: 1.0 };
        let plan = Plan { pace, ..plan(1.0) }.with_profile(profile.after(warmup));
        let mut counts = [0; 5];
        for shard in 0..2 {
            for request in Schedule::new(&plan, ShardCount { shard, shards: 2 }) {
                counts[(request.intended.0 / 1_000_000_000) as usize] += 1;
            }
        }
        assert_eq!(counts, [100, 100, 100, 300, 200]);
    }

    #[test]
    fn a_closed_loop_has_an_empty_schedule() {
        let plan = Plan { pace: Pace::Closed { outstanding: 4 }, ..plan(1.0) };
        assert_eq!(Schedule::new(&plan, ShardCount::ALONE).next(), None);
    }
}
