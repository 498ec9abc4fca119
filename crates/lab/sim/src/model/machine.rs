//! One dispatcher, some cores, some applications: the loop over their events.

use std::collections::VecDeque;

use base::{AppId, Nanos, WorkerId};
use load::Arrival;
use policy::WorkerSample;
use policy::cores::{self, AppTerms, CoreId, CoresConfig, CoresControl, CoresPlan, CoresSample};
use policy::sample::GROUPS_PER_STEP;

use super::app::{App, AppPlan};
use super::check::PlanError;
use super::costs::Costs;
use super::dispatcher::AtPort;
use super::outcome::{AppOutcome, Outcome, StepOutcome};
use super::steering::Begun;
use super::step::Step;
use super::worker::Worker;
use crate::{EventQueue, Level, Range};

/// Time between two turns of a steering that has something to do: the daemon's.
const STEER_EVERY: Nanos = Nanos::from_micros(50);
/// Time between two looks at the load of groups: the daemon's.
const LOAD_EVERY: Nanos = Nanos::from_millis(1);

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct MachinePlan {
    /// Cores that are given out; the dispatcher has one of its own.
    pub cores: u16,
    /// The policy that gives them out, by name: `packing`, `queue_delay`, `utilisation` or
    /// `static_set`.
    pub cores_policy: String,
    /// The time from one of its ticks to the next that is wished for: 1 us to 10 ms.
    pub interval: Nanos,
    /// The applications.
    pub apps: Vec<AppPlan>,
    /// What things take.
    pub costs: Costs,
    /// Which end of their ranges.
    pub level: Level,
    /// The load, step by step. The first finds everybody parked and every table empty.
    pub steps: Vec<Step>,
}

impl Default for MachinePlan {
    /// Ten cores given out as the daemon does it, at measured costs; no application and no load
    /// yet.
    fn default() -> Self {
        Self {
            cores: 10,
            cores_policy: "queue_delay".to_owned(),
            interval: CoresConfig::default().interval,
            apps: Vec::new(),
            costs: Costs::default(),
            level: Level::Median,
            steps: Vec::new(),
        }
    }
}

/// What happens. A worker's number is one among those of all applications; a second number says
/// whether it still means something.
#[derive(Debug)]
pub(super) enum Event {
    /// A packet arrives for this application, at the rate of this number.
    Arrive(u16, u32),
    /// A flow of this application ends.
    Churn(u16),
    /// The dispatcher is done with the first packet at its port.
    Dispatched,
    /// The worker is done with the packet of this turn, or puts it aside.
    Done(u16, u32),
    /// The worker is on its core.
    Ready(u16, u32),
    /// It has found nothing for long.
    Park(u16, u32),
    /// It leaves its core when it has nothing in its hands, because it was told to.
    Leave(u16, u32),
    /// It is moved off its core, because it was told long ago.
    Take(u16, u32),
    /// It has been without a core for long.
    Rest(u16, u32),
    /// A hand-over of this application has not ended in time.
    TakeBack(u16, u32),
    /// The cores are looked at.
    Tick,
    /// Looks at the workers that wait for a core.
    Call,
    /// The steering of this application goes on.
    Steer(u16),
    /// The dispatcher looks at the load of its groups.
    Load(u16),
    /// The load changes.
    Step(u32),
}

/// A run.
pub struct Machine {
    pub(super) plan: MachinePlan,
    pub(super) seed: u64,
    pub(super) events: EventQueue<Event>,
    pub(super) apps: Vec<App>,
    pub(super) workers: Vec<Worker>,
    /// Packets that the dispatcher has not looked at.
    pub(super) port: VecDeque<AtPort>,
    /// When it has time for the next one.
    pub(super) dispatcher_free: Nanos,
    pub(super) cores: CoresControl,
    pub(super) cores_plan: CoresPlan,
    pub(super) sample: CoresSample,
    /// Workers that hold a core.
    pub(super) held: Vec<u16>,
    /// Workers that have something to do and no core, the longest waiting first.
    pub(super) waiting: Vec<u16>,
    /// By core: when its last holder left it.
    pub(super) freed_at: Vec<Nanos>,
    pub(super) has_tick: bool,
    /// An [`Event::Call`] is under way.
    pub(super) has_call: bool,
    /// The policy for cores wants to see workers that have nothing to do, too.
    pub(super) watches_idle: bool,
    pub(super) begun: Vec<Begun>,
    /// Of the step under way.
    pub(super) dispatcher_time: Nanos,
    pub(super) ticks: u64,
    pub(super) step: u16,
    pub(super) packet_events: u64,
    pub(super) outcome: Outcome,
}

impl Machine {
    /// Runs a plan.
    ///
    /// # Errors
    /// The plan is not possible.
    pub fn simulate(plan: MachinePlan, seed: u64) -> Result<Outcome, PlanError> {
        Self::new(plan, seed).map(Self::run)
    }

    /// Everybody parked and nothing under way.
    ///
    /// # Errors
    /// The plan names what does not exist, or asks for what is not possible.
    pub fn new(plan: MachinePlan, seed: u64) -> Result<Self, PlanError> {
        plan.check()?;
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
            apps.push(App::new(app, first, seed)?);
        }
        Ok(Self {
            seed,
            events: EventQueue::default(),
            apps,
            workers,
            port: VecDeque::new(),
            dispatcher_free: Nanos::ZERO,
            cores,
            cores_plan: CoresPlan::with_room(ids.len()),
            sample: CoresSample::default(),
            held: Vec::new(),
            waiting: Vec::new(),
            freed_at: vec![Nanos::FAR_FUTURE; ids.len()],
            has_tick: false,
            has_call: false,
            watches_idle: matches!(plan.cores_policy.as_str(), "packing" | "utilisation"),
            begun: Vec::new(),
            dispatcher_time: Nanos::ZERO,
            ticks: 0,
            step: 0,
            packet_events: 0,
            outcome: Outcome::default(),
            plan,
        })
    }

    /// Runs all steps.
    pub fn run(mut self) -> Outcome {
        self.run_all();
        self.outcome
    }

    pub(super) fn run_all(&mut self) {
        self.events.put(Nanos::ZERO, Event::Step(0));
        for app in 0..self.apps.len() as u16 {
            if self.apps[usize::from(app)].steering.has_load() {
                self.events.put(LOAD_EVERY, Event::Load(app));
            }
        }
        while let Some(event) = self.events.take() {
            if !self.happen(event) {
                break;
            }
        }
        self.outcome.events = self.events.taken_count();
        self.outcome.packet_events = self.packet_events;
    }

    #[inline]
    pub(super) fn at(&self, range: Range) -> Nanos {
        range.at(self.plan.level)
    }

    /// False when the last step is over.
    #[inline]
    fn happen(&mut self, event: Event) -> bool {
        match event {
            Event::Arrive(app, rate) => self.arrive(app, rate),
            Event::Churn(app) => self.churn(app),
            Event::Dispatched => self.dispatched(),
            Event::Done(worker, turn) => self.done(worker, turn),
            Event::Ready(worker, generation) => self.ready(worker, generation),
            Event::Park(worker, generation) => self.find_nothing(worker, generation),
            Event::Leave(worker, generation) => self.leave(worker, generation),
            Event::Take(worker, generation) => self.take_off(worker, generation),
            Event::Rest(worker, generation) => self.rest_parked(worker, generation),
            Event::TakeBack(index, handover) => self.take_back(index, handover),
            Event::Tick => self.tick(),
            Event::Call => self.called(),
            Event::Steer(app) => self.steer(app, false),
            Event::Load(app) => {
                self.events.put(self.events.now() + LOAD_EVERY, Event::Load(app));
                if self.apps[usize::from(app)].steering.is_load_due(self.events.now()) {
                    self.look_at_load(app);
                }
            }
            Event::Step(step) => return self.begin_step(step),
        }
        true
    }

    /// The load changes: what was measured so far is the outcome of the step before.
    fn begin_step(&mut self, number: u32) -> bool {
        let now = self.events.now();
        self.step = number as u16;
        if number > 0 {
            let length = self.plan.steps[number as usize - 1].length;
            let apps = (0..self.apps.len()).map(|app| self.close_outcome(app, now)).collect();
            self.outcome.steps.push(StepOutcome {
                begin: now - length,
                length,
                apps,
                dispatcher: std::mem::take(&mut self.dispatcher_time),
                ticks: std::mem::take(&mut self.ticks),
            });
        }
        let Some(step) = self.plan.steps.get(number as usize) else { return false };
        self.events.put(now + step.length, Event::Step(number + 1));
        let mut batch: Vec<u16> = Vec::new();
        for (index, (app, &rate)) in self.apps.iter_mut().zip(&step.rates).enumerate() {
            let id = index as u16;
            let (is_first, is_new) = (number == 0, rate != app.rate);
            if app.is_batch() {
                if is_first {
                    batch.extend(app.workers().map(|id| id as u16));
                }
            } else if is_first || (is_new && app.plan.trace.is_none()) {
                app.rate = rate;
                app.rate_number += 1;
                if rate > 0.0
                    && let Some(gap) = app.gap()
                {
                    // A constant pace goes on from the last arrival: with steps shorter than a gap
                    // nothing would ever come. An exponential one has no memory.
                    let from = match app.plan.arrival {
                        Arrival::Constant => app.arrived,
                        Arrival::Poisson => now,
                    };
                    let at = (from + gap).max(now);
                    self.events.put(at, Event::Arrive(id, app.rate_number));
                }
            }
            if is_first && app.plan.churn > 0.0 {
                let gap = app.churn_gap();
                self.events.put(now + gap, Event::Churn(id));
            }
        }
        let workers = step.workers.clone();
        // The first is preferred if it is the last to be named.
        batch.into_iter().rev().for_each(|id| self.wait_for_core(id));
        for (index, workers) in workers.into_iter().enumerate() {
            self.set_workers(index as u16, workers);
        }
        self.tick_soon();
        true
    }

    fn close_outcome(&mut self, index: usize, now: Nanos) -> AppOutcome {
        let app = &mut self.apps[index];
        app.outcome.unfinished = app.inside;
        for worker in &mut self.workers[app.workers()] {
            let (held, busy) = worker.close(now);
            app.outcome.core_time += held;
            app.outcome.busy_time += busy;
        }
        let next = AppOutcome { at_begin: app.inside, ..AppOutcome::default() };
        std::mem::replace(&mut app.outcome, next)
    }

    pub(super) fn steer_soon(&mut self, index: u16) {
        let app = &mut self.apps[usize::from(index)];
        let samples = app.wants_samples && app.inside > 0;
        if !app.is_steering && (samples || !app.steering.is_settled()) {
            app.is_steering = true;
            self.events.put(self.events.now() + STEER_EVERY, Event::Steer(index));
        }
    }

    /// The dispatcher reads a slice of the groups' counts, and does nothing else meanwhile.
    fn look_at_load(&mut self, index: u16) {
        let now = self.events.now();
        let look = self.at(self.plan.costs.look).0;
        let steering = &mut self.apps[usize::from(index)].steering;
        let wants_load = steering.wants_load();
        let cost = Nanos(look * steering.look(now) as u64 / GROUPS_PER_STEP as u64);
        self.dispatcher_free = self.dispatcher_free.max(now) + cost;
        self.dispatcher_time += cost;
        if wants_load {
            self.steer(index, true);
        }
    }

    fn steer(&mut self, index: u16, with_load: bool) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        if !with_load {
            app.is_steering = false;
        }
        let samples = self.workers[app.workers()].iter().map(|worker| WorkerSample {
            id: WorkerId(worker.number),
            queued: worker.ring.len() as u32,
            delay: worker.oldest(now),
        });
        app.steering.turn(samples, with_load, now, &mut self.begun);
        self.send_barriers(index);
        self.steer_soon(index);
    }

    /// Packets that are there: what [`App::inside`] counts, counted anew.
    #[cfg(test)]
    pub(super) fn packets_of(&self, index: u16) -> u64 {
        let app = &self.apps[usize::from(index)];
        let at_workers: usize =
            self.workers[app.workers()].iter().map(|worker| worker.unfinished()).sum();
        let at_port = self.port.iter().filter(|packet| packet.app == index).count();
        (at_workers + at_port + app.queue.len() + app.steering.waiting()) as u64
    }
}
