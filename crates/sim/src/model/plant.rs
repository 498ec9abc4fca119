//! One dispatcher, some cores, some applications: the loop over their events.

use base::{Nanos, WorkerId};
use policy::cores::{
    self, AppId, AppTerms, BusyWorker, CoreId, CoresConfig, CoresControl, CoresPlan, CoresRefused,
    CoresSample, Hold,
};
use policy::{UnknownPolicy, WorkerSample};

use super::app::{App, AppPlan, NOBODY, Step};
use super::costs::{Costs, Level};
use super::flows::flow_hash;
use super::outcome::{Outcome, StepOutcome};
use super::steering::{Begun, Route};
use super::worker::{Doing, Packet, Worker};
use crate::EventQueue;

/// Time between two turns of a steering that has something to do: the daemon's.
const STEER_EVERY: Nanos = Nanos::from_micros(50);
/// Time between two looks at the load of groups: the daemon's.
const LOAD_EVERY: Nanos = Nanos::from_millis(1);
/// Packets that the dispatcher's port holds.
const PORT_RING: u64 = 2048;

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

enum Event {
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
    plan: PlantPlan,
    seed: u64,
    events: EventQueue<Event>,
    apps: Vec<App>,
    workers: Vec<Worker>,
    cores: CoresControl,
    cores_plan: CoresPlan,
    sample: CoresSample,
    /// Whose worker a core had last.
    core_of: Vec<u16>,
    dispatcher_free: Nanos,
    ticks: bool,
    begun: Vec<Begun>,
    outcome: Outcome,
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

    fn at(&self, range: super::Range) -> Nanos {
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

    fn arrive(&mut self, index: u16, rate: u32) {
        let now = self.events.now();
        let costs = self.plan.costs;
        let level = self.plan.level;
        let app = &mut self.apps[usize::from(index)];
        if app.rate_number != rate {
            return;
        }
        let gap = app.gap();
        self.events.put(now + gap, Event::Arrive(index, rate));
        app.outcome.offered += 1;
        let mut cost = costs.dispatch.at(level);
        if self.dispatcher_free.since(now).0 > PORT_RING * cost.0.max(1) {
            app.outcome.dropped += 1;
            return;
        }
        let flow = app.lottery.draw();
        let work = Nanos(app.plan.service.sample(app.plan.service_mean.0, &mut app.work));
        if app.plan.system.flow_table().is_some() {
            cost += costs.flow_lookup.at(level);
            let known = &mut app.flows[flow as usize];
            if !known.is_listed && app.table_room > 0 {
                known.is_listed = true;
                app.table_room -= 1;
                cost += costs.flow_insert.at(level);
            } else if !known.is_listed {
                app.outcome.table_full += 1;
                cost += costs.flow_log.at(level);
            }
        }
        self.dispatcher_free = self.dispatcher_free.max(now) + cost;
        let packet = Packet { arrived: now, work, flow };
        self.events.put(self.dispatcher_free, Event::Dispatched(index, packet));
    }

    fn dispatch(&mut self, index: u16, packet: Packet) {
        let now = self.events.now();
        let seed = self.seed;
        let app = &mut self.apps[usize::from(index)];
        let hash = flow_hash(packet.flow, seed);
        let route = app.steering.route(hash, now, &mut self.begun);
        self.mark_begun(index);
        let app = &mut self.apps[usize::from(index)];
        match route {
            Route::To(number) => self.deliver(index, number, packet),
            Route::Held(handover) => {
                app.outcome.held += 1;
                app.steering.hold(handover, packet);
                self.steer_soon(index);
            }
            Route::Shortest => {
                let workers = &self.workers[app.first..app.first + usize::from(app.plan.workers)];
                let ready = |worker: &&Worker| worker.has_core();
                let shortest =
                    workers.iter().filter(ready).min_by_key(|worker| worker.unfinished());
                let number = shortest.map_or(0, |worker| worker.number);
                self.deliver(index, number, packet);
            }
            Route::Nobody => app.outcome.dropped += 1,
        }
    }

    fn deliver(&mut self, index: u16, number: u16, packet: Packet) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        let id = app.first + usize::from(number);
        let worker = &mut self.workers[id];
        if worker.ring.len() >= app.plan.ring {
            app.outcome.dropped += 1;
            return;
        }
        worker.put(packet);
        match worker.doing {
            Doing::Looking(since) if !worker.is_told => {
                worker.idle += now.since(since);
                self.begin(id as u16);
            }
            Doing::Parked => {
                self.cores.prefer(WorkerId(id as u16));
                self.tick_soon();
            }
            _ => self.tick_soon(),
        }
    }

    /// The worker takes its next packet.
    fn begin(&mut self, id: u16) {
        let now = self.events.now();
        let mut cost = self.at(self.plan.costs.packet);
        let cold = self.at(self.plan.costs.cold);
        let worker = &mut self.workers[usize::from(id)];
        let Some(packet) = worker.take() else { return };
        worker.generation = worker.generation.wrapping_add(1);
        worker.doing = Doing::Working;
        worker.current = Some(packet);
        let number = worker.number;
        let app = &mut self.apps[usize::from(worker.app)];
        let flow = &mut app.flows[packet.flow as usize];
        if flow.worker != number && flow.worker != NOBODY {
            cost += cold;
            app.outcome.moved += 1;
        }
        flow.worker = number;
        app.outcome.reordered += u64::from(packet.arrived < flow.done);
        flow.done = flow.done.max(packet.arrived);
        self.events.put(now + cost + packet.work, Event::Done(id));
    }

    fn done(&mut self, id: u16) {
        let now = self.events.now();
        let outside = self.at(self.plan.costs.outside);
        let worker = &mut self.workers[usize::from(id)];
        let index = worker.app;
        if let Some(packet) = worker.current.take() {
            let app = &mut self.apps[usize::from(index)];
            app.outcome.delivered += 1;
            app.outcome.latency.record(now.since(packet.arrived) + outside);
        }
        self.pass_marks(id);
        let worker = &mut self.workers[usize::from(id)];
        if worker.is_told {
            return self.park(id);
        }
        if worker.ring.is_empty() {
            self.look(id);
        } else {
            self.begin(id);
        }
    }

    /// The worker has nothing of its own to do.
    fn look(&mut self, id: u16) {
        let now = self.events.now();
        if self.steal(id) {
            return;
        }
        let spin = self.at(self.plan.costs.spin);
        let worker = &mut self.workers[usize::from(id)];
        worker.generation = worker.generation.wrapping_add(1);
        worker.doing = Doing::Looking(now);
        self.events.put(now + spin, Event::Park(id, worker.generation));
    }

    /// Takes a packet of the fullest ring of its application.
    fn steal(&mut self, id: u16) -> bool {
        let index = usize::from(self.workers[usize::from(id)].app);
        if !self.apps[index].plan.steals {
            return false;
        }
        let first = self.apps[index].first;
        let all = first..first + usize::from(self.apps[index].plan.workers);
        let fullest = all.max_by_key(|other| self.workers[*other].ring.len());
        let Some(packet) = fullest.and_then(|victim| self.workers[victim].take()) else {
            return false;
        };
        if let Some(victim) = fullest {
            self.pass_marks(victim as u16);
        }
        self.apps[index].outcome.stolen += 1;
        let work = packet.work + self.at(self.plan.costs.steal);
        let worker = &mut self.workers[usize::from(id)];
        worker.ring.push_front(Packet { work, ..packet });
        worker.progress.put = worker.progress.put.wrapping_add(1);
        self.begin(id);
        true
    }

    /// Marks that stand behind nothing any more: their hand-overs go on.
    fn pass_marks(&mut self, id: u16) {
        loop {
            let worker = &mut self.workers[usize::from(id)];
            let begun = worker.progress.taken.wrapping_sub(u32::from(worker.current.is_some()));
            let Some(&(target, handover)) = worker.marks.front() else { return };
            // Counters wrap around: what is "not before" is less than half a turn away.
            if begun.wrapping_sub(target) > u32::MAX / 2 {
                return;
            }
            worker.marks.pop_front();
            let index = worker.app;
            let packets = self.apps[usize::from(index)].steering.passed(handover);
            for packet in packets {
                self.dispatch(index, packet);
            }
        }
    }

    /// Puts the marks of hand-overs that have begun behind what their old owners have to do.
    fn mark_begun(&mut self, index: u16) {
        let first = self.apps[usize::from(index)].first;
        for begun in std::mem::take(&mut self.begun) {
            let id = first + usize::from(begun.from);
            let worker = &mut self.workers[id];
            worker.marks.push_back((worker.progress.put, begun.handover));
            self.pass_marks(id as u16);
        }
    }

    fn ready(&mut self, id: u16, generation: u32) {
        let worker = &mut self.workers[usize::from(id)];
        if worker.generation != generation || worker.doing != Doing::Waking {
            return;
        }
        if self.apps[usize::from(worker.app)].is_batch() {
            worker.doing = Doing::Working;
        } else if worker.is_told {
            self.park(id);
        } else if worker.ring.is_empty() {
            self.look(id);
        } else {
            self.begin(id);
        }
    }

    /// The worker gives its core back.
    fn park(&mut self, id: u16) {
        let now = self.events.now();
        let worker = &mut self.workers[usize::from(id)];
        if !worker.has_core() {
            return;
        }
        if let Doing::Looking(since) = worker.doing {
            worker.idle += now.since(since);
        }
        worker.core = None;
        worker.held += now.since(worker.granted_at);
        worker.doing = Doing::Parked;
        worker.is_told = false;
        worker.generation = worker.generation.wrapping_add(1);
        let (index, generation) = (usize::from(worker.app), worker.generation);
        let has_more = !worker.ring.is_empty();
        let plan = &self.apps[index].plan;
        if plan.system.follows_cores() {
            self.rest(id);
        } else if self.apps[index].plan.rest_after != Nanos::FAR_FUTURE {
            let at = now + self.apps[index].plan.rest_after;
            self.events.put(at, Event::Rest(id, generation));
        }
        let mut plan = std::mem::take(&mut self.cores_plan);
        self.cores.parked(WorkerId(id), now, &mut plan);
        self.carry(&plan);
        self.cores_plan = plan;
        if has_more {
            self.cores.prefer(WorkerId(id));
            self.tick_soon();
        }
    }

    /// The flows of a worker without a core go to those who have one.
    fn rest(&mut self, id: u16) {
        let worker = &self.workers[usize::from(id)];
        let (number, index) = (WorkerId(worker.number), worker.app);
        let app = &mut self.apps[usize::from(index)];
        let mut active = app.steering.active().to_vec();
        let all = app.first..app.first + usize::from(app.plan.workers);
        let runs = self.workers[all].iter().any(|other| other.has_core());
        if active.len() > 1 && active.contains(&number) && (runs || app.plan.system.follows_cores())
        {
            active.retain(|other| *other != number);
            app.steering.set_active(active);
            self.steer_soon(index);
        }
    }

    /// The worker has a core: it gets its flows back.
    fn rouse(&mut self, id: u16) {
        let worker = &self.workers[usize::from(id)];
        let (number, index) = (WorkerId(worker.number), worker.app);
        let app = &mut self.apps[usize::from(index)];
        if !app.steering.active().contains(&number) {
            let mut active = app.steering.active().to_vec();
            // By Shenango's rule only those who run have flows.
            if app.plan.system.follows_cores() {
                let first = app.first;
                active.retain(|other| self.workers[first + other.index()].has_core());
            }
            active.push(number);
            active.sort_unstable();
            app.steering.set_active(active);
            self.steer_soon(index);
        }
    }

    fn tick_soon(&mut self) {
        if !self.ticks {
            self.ticks = true;
            let interval = self.cores.interval().0.max(1);
            let now = self.events.now().0;
            self.events.put(Nanos((now / interval + 1) * interval), Event::Tick);
        }
    }

    fn tick(&mut self) {
        let now = self.events.now();
        self.ticks = false;
        self.sample.now = now;
        self.sample.busy.clear();
        self.sample.waiting.clear();
        let mut has_undone = false;
        for (id, worker) in self.workers.iter().enumerate() {
            if worker.has_core() {
                let looking = match worker.doing {
                    Doing::Looking(since) => now.since(since),
                    _ => Nanos::ZERO,
                };
                self.sample.busy.push(BusyWorker {
                    id: WorkerId(id as u16),
                    packets: worker.progress,
                    tasks: policy::cores::Progress::default(),
                    oldest: worker.oldest(now),
                    idle: worker.idle + looking,
                });
                has_undone |= !worker.ring.is_empty() || worker.is_told;
            } else if !worker.ring.is_empty() || self.apps[usize::from(worker.app)].is_batch() {
                let app = AppId(worker.app);
                if self.sample.waiting.last() != Some(&app) {
                    self.sample.waiting.push(app);
                }
                has_undone |= !worker.ring.is_empty();
            }
        }
        let mut plan = std::mem::take(&mut self.cores_plan);
        self.cores.tick(&self.sample, &mut plan);
        let is_empty = plan.is_empty();
        self.carry(&plan);
        self.cores_plan = plan;
        if has_undone || !is_empty {
            self.tick_soon();
        }
    }

    fn carry(&mut self, plan: &CoresPlan) {
        let now = self.events.now();
        let (wake, switch) = (self.at(self.plan.costs.wake), self.at(self.plan.costs.switch));
        let revoke = self.at(self.plan.costs.revoke);
        for &Hold { worker: id, core } in &plan.grants {
            let worker = &mut self.workers[id.index()];
            worker.core = Some(core);
            worker.granted_at = now;
            worker.doing = Doing::Waking;
            worker.is_told = false;
            worker.generation = worker.generation.wrapping_add(1);
            let before = std::mem::replace(&mut self.core_of[usize::from(core.0)], worker.app);
            let switched = before != NOBODY && before != worker.app;
            let ready = now + wake + if switched { switch } else { Nanos::ZERO };
            self.apps[usize::from(worker.app)].outcome.grants += 1;
            self.events.put(ready, Event::Ready(id.0, worker.generation));
            self.rouse(id.0);
        }
        for &Hold { worker: id, .. } in plan.parks.iter().chain(&plan.revokes).chain(&plan.takes) {
            let worker = &mut self.workers[id.index()];
            worker.is_told = true;
            worker.generation = worker.generation.wrapping_add(1);
            self.events.put(now + revoke, Event::Leave(id.0, worker.generation));
        }
    }

    fn steer_soon(&mut self, index: u16) {
        let app = &mut self.apps[usize::from(index)];
        if !app.is_steering && !app.steering.is_settled() {
            app.is_steering = true;
            self.events.put(self.events.now() + STEER_EVERY, Event::Steer(index));
        }
    }

    fn steer(&mut self, index: u16, with_load: bool) {
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
