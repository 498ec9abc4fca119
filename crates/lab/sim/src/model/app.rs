//! An application: what a scenario says of it, and what the run knows of it.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Nanos, WorkerId};
use load::{Arrival, Distribution, Random};
use policy::cores::{Class, Progress};

use super::PlanError;
use super::flows::{Flow, FlowLottery, Popularity};
use super::outcome::AppOutcome;
use super::steering::Steering;
use super::system::System;
use super::trace::{Trace, Traced};
use super::worker::Packet;

/// An application as a scenario describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct AppPlan {
    /// Who steers its packets.
    pub system: System,
    /// Workers: this many cores it can use at once.
    pub workers: u16,
    /// Cores that it gets whenever it asks.
    pub guaranteed: u16,
    /// Whom it gives way to; a batch job has work without end and no packets.
    pub class: Class,
    /// Congested when something waits for longer; zero: for longer than a tick.
    pub queue_delay: Nanos,
    /// Flows at any time.
    pub flows: u32,
    /// How packets spread over them.
    pub popularity: Popularity,
    /// Flows that end, a second; each is followed by a new one at once.
    pub churn: f64,
    /// How packets arrive.
    pub arrival: Arrival,
    /// Packets that were seen, instead of those that chance makes by `flows`, `popularity`,
    /// `arrival`, `service` and a step's rate; they come from the begin of the first step on, if
    /// its rate is above 0.
    pub trace: Option<Arc<Trace>>,
    /// The distribution of what the application does for a packet.
    pub service: Distribution,
    /// Its mean.
    pub service_mean: Nanos,
    /// Packets that a worker's ring holds, 1024 in the daemon; with one queue for all, this many
    /// for each worker.
    pub ring: usize,
    /// A worker with nothing to do takes the packet that has waited for longest in another one's
    /// ring.
    pub steals: bool,
    /// A packet that takes longer is put aside for the others that wait, and goes on later, for the
    /// cost of a switch; [`Nanos::FAR_FUTURE`]: everything runs to its end.
    pub quantum: Nanos,
    /// A worker with nothing to do keeps its core for this long; [`Nanos::FAR_FUTURE`]: for ever.
    pub spin: Nanos,
    /// A worker without a core for this long gives its groups away; [`Nanos::FAR_FUTURE`]: never.
    pub rest_after: Nanos,
}

impl Default for AppPlan {
    /// One worker with `sticky`, no work, and what the daemon does where nothing is configured.
    fn default() -> Self {
        Self {
            system: System::policy("sticky"),
            workers: 1,
            guaranteed: 0,
            class: Class::Latency,
            queue_delay: Nanos::ZERO,
            flows: 1000,
            popularity: Popularity::Uniform,
            churn: 0.0,
            arrival: Arrival::Poisson,
            trace: None,
            service: Distribution::Zero,
            service_mean: Nanos::ZERO,
            ring: 1024,
            steals: false,
            quantum: Nanos::FAR_FUTURE,
            // `wait.spin_us` and `cores.rest_ms` of the configuration.
            spin: Nanos::from_micros(50),
            rest_after: Nanos::from_millis(10),
        }
    }
}

impl AppPlan {
    /// Work without end on up to that many cores, given away to whoever asks.
    pub fn batch(workers: u16) -> Self {
        Self { workers, class: Class::Batch, ..Self::default() }
    }

    /// The same with all its cores, and nobody else ever has them: it spins (Arrakis, IX). The
    /// machine's policy for cores is to be `static_set`.
    #[must_use]
    pub fn with_cores_of_its_own(self) -> Self {
        let guaranteed = self.workers;
        Self { guaranteed, spin: Nanos::FAR_FUTURE, rest_after: Nanos::FAR_FUTURE, ..self }
    }
}

pub(super) struct App {
    pub(super) plan: AppPlan,
    pub(super) steering: Steering,
    /// Its first worker among all.
    pub(super) first: usize,
    /// Workers that may have flows.
    pub(super) limit: u16,
    pub(super) lottery: FlowLottery,
    pub(super) arrivals: Random,
    pub(super) work: Random,
    pub(super) flows: Vec<Flow>,
    /// Each packet pays for an exact table of flows, in which there is so much room left.
    pub(super) has_flow_table: bool,
    pub(super) table_room: u32,
    pub(super) rate: f64,
    /// Of a trace: packets that have come.
    pub(super) traced: usize,
    /// From when on the gap to the next packet runs: the last arrival.
    pub(super) arrived: Nanos,
    /// Counts changes of the rate, so that an arrival of the old one is known.
    pub(super) rate_number: u32,
    pub(super) is_steering: bool,
    /// Its policy looks at what waits for each worker whenever it gives a group away.
    pub(super) wants_samples: bool,
    /// Workers that hold a core.
    pub(super) running: u16,
    /// Packets between arrival and answer or drop.
    pub(super) inside: u64,
    /// The one queue of all workers, and how far it has come.
    pub(super) queue: VecDeque<Packet>,
    pub(super) queue_progress: Progress,
    /// Of the step under way.
    pub(super) outcome: AppOutcome,
}

impl App {
    pub(super) fn new(plan: &AppPlan, first: usize, seed: u64) -> Result<Self, PlanError> {
        let mut seeds = Random::new(seed ^ (first as u64) << 32);
        let mut steering = Steering::new(&plan.system, seeds.bits())?;
        let workers = if plan.system.follows_cores() { 1 } else { plan.workers };
        steering.set_active((0..workers).map(WorkerId).collect());
        Ok(Self {
            steering,
            first,
            limit: plan.workers,
            lottery: FlowLottery::new(plan.flows, plan.popularity, Random::new(seeds.bits())),
            arrivals: Random::new(seeds.bits()),
            work: Random::new(seeds.bits()),
            flows: vec![Flow::default(); plan.flows as usize],
            has_flow_table: plan.system.flow_table().is_some(),
            table_room: plan.system.flow_table().unwrap_or(0),
            rate: 0.0,
            traced: 0,
            arrived: Nanos::ZERO,
            rate_number: 0,
            is_steering: false,
            wants_samples: plan.system.name() == "least_loaded",
            running: 0,
            inside: 0,
            queue: VecDeque::new(),
            queue_progress: Progress::default(),
            outcome: AppOutcome::default(),
            plan: plan.clone(),
        })
    }

    /// Of a trace: the packet that comes now.
    #[inline]
    pub(super) fn take_traced(&mut self) -> Option<Traced> {
        let packet = *self.plan.trace.as_ref()?.packets().get(self.traced)?;
        self.traced += 1;
        Some(packet)
    }

    /// The time until the next packet; nothing when a trace has no more of them.
    #[inline]
    pub(super) fn gap(&mut self) -> Option<Nanos> {
        if let Some(trace) = &self.plan.trace {
            return trace.gap(self.traced.checked_sub(1));
        }
        let mean = 1e9 / self.rate;
        let gap = match self.plan.arrival {
            Arrival::Poisson => mean * self.arrivals.exponential(),
            Arrival::Constant => mean,
        };
        Some(Nanos(gap.round() as u64))
    }

    /// The time until the next flow ends.
    pub(super) fn churn_gap(&mut self) -> Nanos {
        Nanos((1e9 / self.plan.churn * self.arrivals.exponential()).round() as u64)
    }

    /// Its workers among all.
    #[inline]
    pub(super) fn workers(&self) -> std::ops::Range<usize> {
        self.first..self.first + usize::from(self.plan.workers)
    }

    /// Whether its packets wait in one queue for any worker.
    #[inline]
    pub(super) fn has_one_queue(&self) -> bool {
        self.plan.system == System::OneQueue
    }

    /// Whether something is in its one queue and nobody has a core.
    pub(super) fn is_stuck(&self) -> bool {
        self.running == 0 && !self.queue.is_empty()
    }

    #[inline]
    pub(super) fn is_batch(&self) -> bool {
        self.plan.class == Class::Batch
    }

    /// A packet has gone, unanswered.
    pub(super) fn drop_one(&mut self) {
        self.outcome.dropped += 1;
        self.inside -= 1;
    }
}
