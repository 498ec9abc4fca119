//! How long requests take, from what each way of answering one takes.
//!
//! Requests are so rare (a twentieth of what the server can do) that what a request meets is seldom
//! another one, and mostly threads that sleep or do not. Whoever found nothing for the time of a
//! spin sleeps; the dispatcher hears every packet and a worker only its own, so a worker sleeps
//! whenever the dispatcher does.

use base::Nanos;
use load::Random;
use sim::model::Range;

use super::{DemoPlan, Moves};
use crate::quantile;

/// Round trips of one kind, each as likely as any other: the middles of equal shares of what was
/// measured. Half of the requests of several kinds together may be answered within a time that only
/// the slow half of one kind takes, so that its median alone says too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundTrips(Vec<Range>);

impl RoundTrips {
    /// These; of none there is nothing to be drawn, and they count as one that takes no time.
    pub fn of(mut likely: Vec<Range>) -> Self {
        if likely.is_empty() {
            likely.push(Range::exactly(Nanos::ZERO));
        }
        likely.sort_unstable_by_key(|range| range.median);
        Self(likely)
    }

    /// Half of them take less.
    pub fn median(&self) -> Range {
        self.0[self.0.len() / 2]
    }

    fn draw(&self, random: &mut Random) -> Range {
        self.0[random.below(self.0.len() as u32) as usize]
    }
}

/// What a request takes, measured at the client: each where nothing else can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoCosts {
    /// A round trip when dispatcher and worker are awake: one flow, one request outstanding.
    pub awake: RoundTrips,
    /// ... when the worker sleeps and the dispatcher does not: one request outstanding, and this
    /// many workers that a request seldom finds one that was busy lately.
    pub worker_asleep: RoundTrips,
    /// ... when both sleep: requests far apart.
    pub both_asleep: RoundTrips,
    /// How long the server's CPU is busy with a request: one over the most that it can do in a
    /// second.
    pub server: Range,
    /// A thread that finds nothing looks for this long before it sleeps (`wait.spin_us`).
    pub spin: Nanos,
}

impl Default for DemoCosts {
    /// From docs/figures: `calisto bench steer`'s echo with a worker on another thread of the CPU
    /// (9.0 us, 281,000 a second), and the wake of a halted CPU (36.9 us) besides. What a thread's
    /// wake on a busy CPU takes is between the 3.2 us of a switch and that. To be measured in the
    /// run that is compared.
    fn default() -> Self {
        let always = |low, median, high| RoundTrips::of(vec![Range::nanos(low, median, high)]);
        Self {
            awake: always(9_000, 9_000, 10_000),
            worker_asleep: always(12_000, 14_000, 20_000),
            both_asleep: always(40_000, 46_000, 60_000),
            server: Range::nanos(3_500, 3_560, 4_000),
            spin: Nanos::from_micros(50),
        }
    }
}

/// How long requests take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Half of the requests take less.
    pub p50: Nanos,
    /// 95 of 100 do.
    pub p95: Nanos,
    /// The shares of requests that find both awake, the worker asleep, both asleep.
    pub found: [f64; 3],
    /// The share of its time for which requests want the server's CPU, wakes included. From 1 on a
    /// queue grows for ever, and the times are nothing but its length.
    pub load: f64,
}

pub(super) fn predict(plan: &DemoPlan, moves: &Moves) -> Latency {
    let costs = &plan.costs;
    let at = |range: Range| range.at(plan.level);
    let round_trips = [&costs.awake, &costs.worker_asleep, &costs.both_asleep];
    let usual = round_trips.map(|trips| at(trips.median()));
    let busy = at(costs.server);
    let mut random = Random::new(plan.seed);
    let mut heard = vec![Nanos::ZERO; usize::from(plan.workers) + 1];
    let (mut dispatcher_heard, mut free_at) = (Nanos::ZERO, Nanos::ZERO);
    let mut took = Vec::new();
    let mut found = [0_u64; 3];
    let (mut arrived, mut wanted) = (plan.costs.spin, Nanos::ZERO);
    loop {
        arrived += Nanos((random.exponential() * 1e9 / plan.rate).round() as u64);
        if arrived > plan.length + plan.costs.spin {
            break;
        }
        // One more worker is there for a third of the time.
        let third = (3 * arrived.0 / plan.length.0.max(1)).min(2) as usize;
        let flow = random.below(moves.flows() as u32) as usize;
        let owner = moves.owners[third].get(flow).copied().flatten().unwrap_or(0);
        let worker = &mut heard[usize::from(owner).min(usize::from(plan.workers))];
        let begins = arrived.max(free_at);
        let sleeps = |heard: Nanos| begins.since(heard) > costs.spin;
        let state = usize::from(sleeps(*worker)) + usize::from(sleeps(dispatcher_heard));
        found[state] += 1;
        took.push(begins.since(arrived) + at(round_trips[state].draw(&mut random)));
        // Who had to be woken first is busy that much later.
        let woken = begins + usual[state].since(usual[0]);
        free_at = woken + busy;
        wanted += free_at.since(begins);
        (*worker, dispatcher_heard) = (free_at, free_at);
    }
    took.sort_unstable();
    let quantile = |share| quantile(&took, share).unwrap_or(Nanos::ZERO);
    let count = took.len().max(1) as f64;
    Latency {
        p50: quantile(0.5),
        p95: quantile(0.95),
        found: found.map(|found| found as f64 / count),
        load: wanted.as_secs_f64() / plan.length.as_secs_f64(),
    }
}
