//! What the first act of `calisto demo` shows, predicted: which flows move when a worker comes and
//! goes, and how long requests take meanwhile.
//!
//! Which flows move is not modelled: the daemon's own dispatcher gets a packet of every flow, with
//! the hash key, groups and policy of its configuration, and its table is read. How long requests
//! take follows from costs that were measured elsewhere ([`DemoCosts`]).

mod latency;
mod moves;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use base::Nanos;
pub use latency::{DemoCosts, Latency, RoundTrips};
pub use moves::Moves;
use sim::model::Level;

use crate::Refused;
use crate::refused::check;

/// Each has its time kept until the end.
const REQUESTS_MAX: f64 = 1e8;

/// One policy on the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoAct {
    /// Its name.
    pub policy: String,
    /// The flows that send, by the order of their first packets: client, then server. UDP over
    /// IPv4.
    pub flows: Vec<(SocketAddr, SocketAddr)>,
}

/// What is predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoPlan {
    /// The policies, one after the other in the same daemon.
    pub acts: Vec<DemoAct>,
    /// Flow groups, as `steer.groups`.
    pub groups: u32,
    /// As `steer.seed`: the hash key and all lots of the policies come from it.
    pub seed: u64,
    /// Workers; one more comes and goes.
    pub workers: u16,
    /// Requests a second, Poisson.
    pub rate: f64,
    /// How long each policy is watched.
    pub length: Nanos,
    /// What a request takes.
    pub costs: DemoCosts,
    /// Which end of the measured ranges.
    pub level: Level,
}

impl Default for DemoPlan {
    /// The demo's own settings; without flows, which only a run has.
    fn default() -> Self {
        let act = |policy: &str| DemoAct { policy: policy.to_owned(), flows: Vec::new() };
        Self {
            acts: vec![act("modulo"), act("sticky")],
            groups: 65_536,
            seed: 1,
            workers: 4,
            rate: 20_000.0,
            length: Nanos::from_secs(8),
            costs: DemoCosts::default(),
            level: Level::Median,
        }
    }
}

/// What one policy is predicted to show.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoOutcome {
    /// Its name.
    pub policy: String,
    /// Who owned each flow.
    pub moves: Moves,
    /// How long requests take.
    pub latency: Latency,
}

/// Predicts a plan's acts. The same plan gives the same outcome.
///
/// # Errors
/// The plan makes no sense; nothing was run.
pub fn run(plan: &DemoPlan) -> Result<Vec<DemoOutcome>, Refused> {
    check((1..=63).contains(&plan.workers), "workers", plan.workers, "from 1 to 63")?;
    let rate = plan.rate > 0.0 && plan.rate <= 10e6;
    check(rate, "rate", plan.rate, "above 0 and at most 10 million")?;
    let length = (Nanos(1)..=Nanos::from_secs(3600)).contains(&plan.length);
    check(length, "length", plan.length, "more than nothing and at most an hour")?;
    let requests = plan.rate * plan.length.as_secs_f64();
    check(requests <= REQUESTS_MAX, "length", plan.length, "at most 100 million requests")?;
    let has_flows = plan.acts.iter().all(|act| !act.flows.is_empty());
    check(has_flows, "flows", "empty", "at least one for each policy")?;
    let all_moves = moves::predict(plan)?;
    let outcome = |(act, moves): (&DemoAct, Moves)| DemoOutcome {
        policy: act.policy.clone(),
        latency: latency::predict(plan, &moves),
        moves,
    };
    Ok(plan.acts.iter().zip(all_moves).map(outcome).collect())
}
