//! One dispatcher, some cores, some applications: the loop over their events.

use base::{Nanos, WorkerId};
use policy::cores::{
    self, AppId, AppTerms, CoreId, CoresConfig, CoresControl, CoresPlan, CoresRefused, CoresSample,
};
use policy::{UnknownPolicy, WorkerSample};

use super::app::{App, AppPlan, NOBODY, Step};
use super::costs::{Costs, Level};
use super::outcome::{Outcome, StepOutcome};
use super::steering::Begun;
use super::worker::{Doing, Packet, Worker};
use crate::EventQueue;

/// Time between two turns of a steering that has something to do: the daemon's.
const STEER_EVERY: Nanos = Nanos::from_micros(50);
/// Time between two looks at the load of groups: the daemon's.
const LOAD_EVERY: Nanos = Nanos::from_millis(1);
/// Packets that the dispatcher's port holds.
pub(super) const PORT_RING: u64 = 2048;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct PlantPlan {
    /// Cores that are given out; the dispatcher has one of its own.
    pub cores: u16,
    /// The policy that gives them out, by name.
    pub cores_policy: String,
    /// The time from one of its ticks to the next.
    pub interval: Nanos,
    /// The applications.
    pub apps: Vec<AppPlan>,
    /// What things take.
    pub costs: Costs,
    /// Which end of their ranges.
    pub level: Level,
    /// The load, step by step. The first is not measured.
    pub steps: Vec<Step>,
}

/// Why a plan cannot be run.
#[derive(Debug)]
pub enum PlanError {
    /// No policy has that name.
    Policy(UnknownPolicy),
    /// The cores cannot be given out like that.
    Cores(CoresRefused),
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Policy(unknown) => unknown.fmt(f),
            Self::Cores(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {}

pub(super) enum Event {
    /// A packet arrives; the rate's number says whether it still does.
    Arrive(u16, u32),
    /// The dispatcher has looked at it.
    Dispatched(u16, Packet),
    /// The worker has done its packet.
    Done(u16),
    /// The worker is on its core.
    Ready(u16, u32),
    /// It has found nothing for long.
    Park(u16, u32),
    /// It leaves its core, because it was told to.
    Leave(u16, u32),
    /// It has been without a core for long.
    Rest(u16, u32),
    /// The cores are looked at.
    Tick,
    /// The steering goes on.
    Steer(u16),
    /// The steering looks at the load.
    Load(u16),
    /// The load changes.
    Step(usize),
}

/// A run.
pub struct Plant {
    pub(super) plan: PlantPlan,
    pub(super) seed: u64,
    pub(super) events: EventQueue<Event>,
    pub(super) apps: Vec<App>,
    pub(super) workers: Vec<Worker>,
    pub(super) cores: CoresControl,
    pub(super) cores_plan: CoresPlan,
    pub(super) sample: CoresSample,
    /// Whose worker a core had last.
    pub(super) core_of: Vec<u16>,
    pub(super) dispatcher_free: Nanos,
    pub(super) ticks: bool,
    pub(super) begun: Vec<Begun>,
    pub(super) outcome: Outcome,
}

impl Plant {
    /// Everybody parked and nothing under way.
    ///
    /// # Errors
    /// The plan names what does not exist, or asks for more cores than there are.
    pub fn new(plan: PlantPlan, seed: u64) -> Result<Self, PlanError> {
        let allocate = cores::by_name(&plan.cores_policy).map_err(PlanError::Policy)?;
        let ids: Vec<CoreId> = (0..plan.cores).map(CoreId).collect();
        let config = CoresConfig { interval: plan.interval, ..CoresConfig::default() };
        let mut cores = CoresControl::new(config, allocate, &ids).map_err(PlanError::Cores)?;
        let (mut apps, mut workers) = (Vec::new(), Vec::new());
        for (index, app) in plan.apps.iter().enumerate() {
            let first = workers.len();
            workers.extend((0..app.workers).map(|number| Worker::new(index as u16, number)));
            let terms = AppTerms {
                id: AppId(index as u16),
                guaranteed: app.guaranteed,
                burst: app.workers,
                class: app.class,
                queue_delay: app.queue_delay,
            };
            let ids: Vec<WorkerId> = (first..workers.len()).map(|id| WorkerId(id as u16)).collect();
            cores.add_app(terms, &ids).map_err(PlanError::Cores)?;
            apps.push(App::new(app, first, seed).map_err(PlanError::Policy)?);
        }
        Ok(Self {
            seed,
            events: EventQueue::default(),
            apps,
            workers,
            cores,
            cores_plan: CoresPlan::with_room(ids.len()),
            sample: CoresSample::default(),
            core_of: vec![NOBODY; ids.len()],
            dispatcher_free: Nanos::ZERO,
            ticks: false,
            begun: Vec::new(),
            outcome: Outcome::default(),
            plan,
        })
    }

    /// Runs all steps.
    pub fn run(mut self) -> Outcome {
        self.events.put(Nanos::ZERO, Event::Step(0));
        for app in 0..self.apps.len() as u16 {
            if self.apps[usize::from(app)].steering.wants_load() {
                self.events.put(LOAD_EVERY, Event::Load(app));
            }
        }
        while let Some(event) = self.events.take() {
            if !self.happen(event) {
                break;
            }
        }
        self.outcome.events = self.events.put_count();
        self.outcome
    }

    pub(super) fn at(&self, range: super::Range) -> Nanos {
        range.at(self.plan.level)
    }

    /// False when the last step is over.
    fn happen(&mut self, event: Event) -> bool {
        match event {
            Event::Arrive(app, rate) => self.arrive(app, rate),
            Event::Dispatched(app, packet) => self.dispatch(app, packet),
            Event::Done(worker) => self.done(worker),
            Event::Ready(worker, generation) => self.ready(worker, generation),
            Event::Park(worker, generation) => {
                let of = &self.workers[usize::from(worker)];
                if of.generation == generation && matches!(of.doing, Doing::Looking(_)) {
                    self.park(worker);
                }
            }
            Event::Leave(worker, generation) => {
                let of = &self.workers[usize::from(worker)];
                if of.generation == generation && of.is_told && of.current.is_none() {
                    self.park(worker);
                }
            }
            Event::Rest(worker, generation) => {
                let of = &self.workers[usize::from(worker)];
                if of.generation == generation && of.doing == Doing::Parked {
                    self.rest(worker);
                }
            }
            Event::Tick => self.tick(),
            Event::Steer(app) => self.steer(app, false),
            Event::Load(app) => {
                self.events.put(self.events.now() + LOAD_EVERY, Event::Load(app));
                self.steer(app, true);
            }
            Event::Step(step) => return self.step(step),
        }
        true
    }

    /// The load changes: what was measured so far is the outcome of the step before.
    fn step(&mut self, number: usize) -> bool {
        let now = self.events.now();
        if number > 0 {
            let length = self.plan.steps[number - 1].length;
            let apps = (0..self.apps.len()).map(|app| self.close_outcome(app, now)).collect();
            self.outcome.steps.push(StepOutcome { length, apps });
        }
        let Some(step) = self.plan.steps.get(number) else { return false };
        self.events.put(now + step.length, Event::Step(number + 1));
        for (index, (app, rate)) in self.apps.iter_mut().zip(&step.rates).enumerate() {
            app.rate = *rate;
            app.rate_number += 1;
            if app.is_batch() {
                self.ticks = true;
                self.events.put(now, Event::Tick);
            } else if *rate > 0.0 {
                let gap = app.gap();
                self.events.put(now + gap, Event::Arrive(index as u16, app.rate_number));
            }
        }
        true
    }

    fn close_outcome(&mut self, index: usize, now: Nanos) -> super::AppOutcome {
        let app = &mut self.apps[index];
        let mut outcome = std::mem::take(&mut app.outcome);
        let workers = app.first..app.first + usize::from(app.plan.workers);
        for worker in &mut self.workers[workers] {
            outcome.unfinished += u64::from(worker.unfinished());
            outcome.core_time += std::mem::take(&mut worker.held);
            if worker.has_core() {
                outcome.core_time += now.since(worker.granted_at);
                worker.granted_at = now;
            }
        }
        outcome
    }

    pub(super) fn steer_soon(&mut self, index: u16) {
        let app = &mut self.apps[usize::from(index)];
        if !app.is_steering && !app.steering.is_settled() {
            app.is_steering = true;
            self.events.put(self.events.now() + STEER_EVERY, Event::Steer(index));
        }
    }

    pub(super) fn steer(&mut self, index: u16, with_load: bool) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        if !with_load {
            app.is_steering = false;
        }
        let all = app.first..app.first + usize::from(app.plan.workers);
        let samples = self.workers[all].iter().map(|worker| WorkerSample {
            id: WorkerId(worker.number),
            queued: worker.ring.len() as u32,
            delay: worker.oldest(now),
        });
        app.steering.turn(samples, with_load, now, &mut self.begun);
        self.mark_begun(index);
        self.steer_soon(index);
    }
}
