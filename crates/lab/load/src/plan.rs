//! What is sent and when: every number of a run, checked, before it starts.

use base::Nanos;

use crate::parts::PARTS_MAX;
use crate::zipf::EXPONENT_MAX;
use crate::{Arrival, Distribution, Error, FlowOrder, Profile, REQUEST_BYTES};

/// Flows that a run may have.
pub(crate) const FLOWS_MAX: u32 = 700_000;
/// Threads that a run may have.
pub(crate) const SHARDS_MAX: u32 = 64;
/// Requests in flight that a closed loop may have.
pub(crate) const OUTSTANDING_MAX: u32 = 65_536;
/// Largest payload: what fits into IPv4 and UDP.
pub(crate) const PAYLOAD_MAX: usize = 65_507;

/// What decides when the next request leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// The schedule, and nothing that the server does.
    Open {
        /// The process.
        arrival: Arrival,
        /// Requests a second.
        rate: f64,
    },
    /// The replies: this many requests are in flight, and each reply releases the next.
    Closed {
        /// How many.
        outstanding: u32,
    },
}

/// What is sent and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What decides when requests leave.
    pub pace: Pace,
    /// How the rate of an open loop changes; see [`Plan::with_profile`].
    pub profile: Profile,
    /// Each piece of the profile is measured for itself too.
    pub by_piece: bool,
    /// How many flows they belong to.
    pub flows: u32,
    /// Which one is next.
    pub flow_order: FlowOrder,
    /// The exponent, where that is by Zipf's law.
    pub zipf_exponent: f64,
    /// How much work they ask for.
    pub distribution: Distribution,
    /// Mean of that work.
    pub iterations: u64,
    /// Bytes of a request.
    pub payload_bytes: usize,
    /// How long is sent before anything is measured.
    pub warmup: Nanos,
    /// How long is sent and measured.
    pub length: Nanos,
    /// How long replies are waited for after the last request. A request of a closed loop is given
    /// up after it, too.
    pub grace: Nanos,
    /// Decides times, flows and work.
    pub seed: u64,
}

impl Default for Plan {
    /// 20,000 requests a second on one flow for 10 seconds, without work.
    fn default() -> Self {
        Self {
            pace: Pace::Open { arrival: Arrival::Poisson, rate: 20e3 },
            profile: Profile::LEVEL,
            by_piece: false,
            flows: 1,
            flow_order: FlowOrder::Random,
            zipf_exponent: 0.99,
            distribution: Distribution::Constant,
            iterations: 0,
            payload_bytes: REQUEST_BYTES,
            warmup: Nanos::ZERO,
            length: Nanos::from_secs(10),
            grace: Nanos::from_millis(500),
            seed: 1,
        }
    }
}

/// Which shard, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardCount {
    /// This one, from zero.
    pub shard: u32,
    /// All.
    pub shards: u32,
}

impl ShardCount {
    /// The only shard there is.
    pub const ALONE: Self = Self { shard: 0, shards: 1 };

    /// The seed of what this shard's transport draws, in a run with `seed`.
    pub(crate) fn seed(self, seed: u64) -> u64 {
        seed ^ u64::from(self.shard + 1).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    /// This shard's part of `total`; the parts of all shards are `total`.
    pub(crate) fn part(self, total: u32) -> u32 {
        let (shard, shards) = (u64::from(self.shard), u64::from(self.shards.max(1)));
        let upto = |shard: u64| u64::from(total) * shard / shards;
        (upto(shard + 1) - upto(shard)) as u32
    }
}

impl Plan {
    /// The same with a rate that changes: length, warm-up and (mean) rate are those of `profile`.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Self {
        let pace = match self.pace {
            Pace::Open { arrival, .. } => Pace::Open { arrival, rate: profile.mean_rate() },
            closed @ Pace::Closed { .. } => closed,
        };
        Self { pace, warmup: profile.warmup(), length: profile.length(), profile, ..self }
    }

    /// Whether the plan can be carried out by that many shards.
    ///
    /// # Errors
    /// A sentence about the setting that cannot be.
    pub fn check(&self, shards: u32) -> Result<(), Error> {
        let sentence = if !(1..=FLOWS_MAX).contains(&self.flows) {
            format!("{} flows are not possible: choose 1 to {FLOWS_MAX}", self.flows)
        } else if !(1..=SHARDS_MAX).contains(&shards) {
            format!("{shards} threads are not possible: choose 1 to {SHARDS_MAX}")
        } else if shards > self.flows {
            format!(
                "{shards} threads need at least {shards} flows, one each; there are {}: use more \
                 flows or fewer threads",
                self.flows
            )
        } else if !(REQUEST_BYTES..=PAYLOAD_MAX).contains(&self.payload_bytes) {
            format!(
                "a payload of {} bytes is not possible: choose {REQUEST_BYTES} to {PAYLOAD_MAX}",
                self.payload_bytes
            )
        } else if !(0.0..=EXPONENT_MAX).contains(&self.zipf_exponent) {
            format!(
                "an exponent of {} is not possible for Zipf's law: choose 0 to {EXPONENT_MAX}",
                self.zipf_exponent
            )
        } else if self.by_piece && self.profile.measured().len() > PARTS_MAX {
            format!(
                "{} samples are not possible: choose 1 to {PARTS_MAX}",
                self.profile.measured().len()
            )
        } else if self.length == Nanos::ZERO {
            "a run of no length measures nothing: choose more seconds".to_owned()
        } else {
            match self.pace {
                Pace::Open { rate, .. } if !(rate > 0.0 && rate <= 1e9) => {
                    format!("a rate of {rate} a second is not possible: choose 1 to 1000M")
                }
                Pace::Closed { .. } if !self.profile.is_level() => {
                    "a closed loop has no rate that could change: leave out what sets it".to_owned()
                }
                Pace::Closed { outstanding }
                    if !(shards..=OUTSTANDING_MAX).contains(&outstanding) =>
                {
                    format!(
                        "{outstanding} requests in flight are not possible with {shards} threads: \
                         choose {shards} to {OUTSTANDING_MAX}"
                    )
                }
                _ => return Ok(()),
            }
        };
        Err(Error::Setting(sentence))
    }

    /// The plan of one shard: its part of rate, flows and requests in flight.
    pub(crate) fn of_shard(&self, shard: ShardCount) -> Self {
        let pace = match self.pace {
            Pace::Open { arrival, rate } => {
                Pace::Open { arrival, rate: rate / f64::from(shard.shards.max(1)) }
            }
            Pace::Closed { outstanding } => Pace::Closed { outstanding: shard.part(outstanding) },
        };
        let profile = self.profile.scaled(1.0 / f64::from(shard.shards.max(1)));
        Self { pace, profile, flows: shard.part(self.flows), ..self.clone() }
    }

    /// The plan of one of several load generators that begin together: each has requests of its
    /// own.
    pub(crate) fn of_client(&self, client: u32) -> Self {
        let seed = self.seed ^ u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { seed, ..self.clone() }
    }

    /// Requests whose replies can still be told, a shard: what is sent in two seconds and the
    /// grace, because a server that stalls answers late and is to be measured, not forgotten.
    pub(crate) fn window_requests(&self) -> usize {
        let wanted = match self.pace {
            Pace::Open { rate, .. } => {
                rate.max(self.profile.peak()) * (self.grace.as_secs_f64() + 2.0)
            }
            // A closed loop sends at most a few million a second.
            Pace::Closed { outstanding } => f64::from(outstanding) * 64.0,
        };
        // 32 bytes each: 256 KiB to 256 MiB.
        (wanted as usize).clamp(1 << 13, 1 << 23).next_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_all_shards_are_the_whole_and_nearly_equal() {
        for (total, shards) in [(700_000, 7), (5, 5), (11, 4), (u32::MAX, 3)] {
            let parts: Vec<u32> =
                (0..shards).map(|shard| ShardCount { shard, shards }.part(total)).collect();
            assert_eq!(parts.iter().map(|&part| u64::from(part)).sum::<u64>(), u64::from(total));
            let spread = parts.iter().max().zip(parts.iter().min());
            assert!(spread.is_some_and(|(max, min)| max - min <= 1), "{parts:?}");
        }
    }

    #[test]
    fn an_impossible_plan_is_refused_by_a_sentence_with_the_range() {
        let plan = Plan::default();
        let closed =
            |outstanding| Plan { pace: Pace::Closed { outstanding }, flows: 9, ..Plan::default() };
        let steps = |count| {
            let piece = crate::Piece::level(5.0, Nanos::from_secs(1));
            let profile = Profile::new(vec![piece; count]).expect("it is possible");
            Plan { by_piece: true, ..Plan::default() }.with_profile(profile)
        };
        for (plan, shards, expected) in [
            (Plan { flows: 0, ..plan.clone() }, 1, "choose 1 to 700000"),
            (Plan { flows: 700_001, ..plan.clone() }, 1, "choose 1 to 700000"),
            (Plan { flows: 2, ..plan.clone() }, 3, "use more flows or fewer threads"),
            (plan.clone(), 0, "choose 1 to 64"),
            (Plan { payload_bytes: 15, ..plan.clone() }, 1, "choose 16 to 65507"),
            (Plan { zipf_exponent: -1.0, ..plan.clone() }, 1, "choose 0 to 10"),
            (Plan { length: Nanos::ZERO, ..plan.clone() }, 1, "more seconds"),
            (steps(101), 1, "choose 1 to 100"),
            (Plan { pace: Pace::Closed { outstanding: 1 }, ..steps(2) }, 1, "closed loop"),
            (closed(0), 1, "choose 1 to 65536"),
            (closed(3), 4, "choose 4 to 65536"),
        ] {
            let error = plan.check(shards).expect_err(expected);
            assert!(error.is_usage() && error.to_string().contains(expected), "{error}");
        }
        assert_eq!(plan.check(1), Ok(()));
        assert_eq!(closed(4).check(4), Ok(()));
        assert_eq!(steps(100).check(1), Ok(()));
    }
}
