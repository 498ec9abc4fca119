//! An application: its load, its workers, what became of its packets.

use base::{Nanos, WorkerId};
use load::{Arrival, Distribution, Random};
use policy::UnknownPolicy;
use policy::cores::Class;

use super::flows::{FlowLottery, Popularity};
use super::outcome::AppOutcome;
use super::steering::{Steering, System};

/// An application as a scenario describes it.
#[derive(Clone, Debug)]
pub struct AppPlan {
    /// Who steers its packets.
    pub system: System,
    /// Workers.
    pub workers: u16,
    /// Cores that it gets whenever it asks.
    pub guaranteed: u16,
    /// Whom it gives way to; a batch job has work without end and no packets.
    pub class: Class,
    /// Congested when something waits for longer; zero: for longer than a tick.
    pub queue_delay: Nanos,
    /// Flows.
    pub flows: u32,
    /// How packets spread over them.
    pub popularity: Popularity,
    /// How packets arrive.
    pub arrival: Arrival,
    /// The distribution of what the application does for a packet.
    pub service: Distribution,
    /// Its mean.
    pub service_mean: Nanos,
    /// Packets that a worker's ring holds.
    pub ring: usize,
    /// A worker with nothing to do takes packets from the fullest ring.
    pub steals: bool,
    /// A worker without a core for this long gives its groups away.
    pub rest_after: Nanos,
}

impl Default for AppPlan {
    fn default() -> Self {
        Self {
            system: System::policy("sticky"),
            workers: 1,
            guaranteed: 0,
            class: Class::Latency,
            queue_delay: Nanos::ZERO,
            flows: 1000,
            popularity: Popularity::Uniform,
            arrival: Arrival::Poisson,
            service: Distribution::Zero,
            service_mean: Nanos::ZERO,
            ring: 4096,
            steals: false,
            // The daemon's.
            rest_after: Nanos::from_millis(10),
        }
    }
}

/// A stretch of time with one rate.
#[derive(Clone, Debug)]
pub struct Step {
    /// Packets a second, by application.
    pub rates: Vec<f64>,
    /// How long.
    pub length: Nanos,
}

/// What is remembered of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// The arrival of its latest packet that was done.
    pub(super) done: Nanos,
    /// Who did it; [`NOBODY`] before the first.
    pub(super) worker: u16,
    /// An exact table of flows has it.
    pub(super) is_listed: bool,
}

pub(super) const NOBODY: u16 = u16::MAX;

pub(super) struct App {
    pub(super) plan: AppPlan,
    pub(super) steering: Steering,
    /// Its first worker among all.
    pub(super) first: usize,
    pub(super) lottery: FlowLottery,
    pub(super) arrivals: Random,
    pub(super) work: Random,
    pub(super) flows: Vec<Flow>,
    /// Room that is left in an exact table of flows.
    pub(super) table_room: u32,
    pub(super) rate: f64,
    /// Counts changes of the rate, so that an arrival of the old one is known.
    pub(super) rate_number: u32,
    pub(super) is_steering: bool,
    pub(super) outcome: AppOutcome,
}

impl App {
    pub(super) fn new(plan: &AppPlan, first: usize, seed: u64) -> Result<Self, UnknownPolicy> {
        let mut seeds = Random::new(seed ^ (first as u64) << 32);
        let mut steering = Steering::new(&plan.system, seeds.bits())?;
        let workers = if plan.system.follows_cores() { 1 } else { plan.workers };
        steering.set_active((0..workers).map(WorkerId).collect());
        let flow = Flow { done: Nanos::ZERO, worker: NOBODY, is_listed: false };
        Ok(Self {
            steering,
            first,
            lottery: FlowLottery::new(plan.flows, plan.popularity, Random::new(seeds.bits())),
            arrivals: Random::new(seeds.bits()),
            work: Random::new(seeds.bits()),
            flows: vec![flow; plan.flows as usize],
            table_room: plan.system.flow_table().unwrap_or(0),
            rate: 0.0,
            rate_number: 0,
            is_steering: false,
            outcome: AppOutcome::default(),
            plan: plan.clone(),
        })
    }

    /// The time until the next packet.
    pub(super) fn gap(&mut self) -> Nanos {
        let mean = 1e9 / self.rate;
        let gap = match self.plan.arrival {
            Arrival::Poisson => mean * self.arrivals.exponential(),
            Arrival::Constant => mean,
        };
        Nanos(gap.round() as u64)
    }

    pub(super) fn is_batch(&self) -> bool {
        self.plan.class == Class::Batch
    }
}
