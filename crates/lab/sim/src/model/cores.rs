//! Cores: who gets one, who gives one back, and what becomes of the flows of those without.

use base::{AppId, Nanos, WorkerId};
use policy::cores::{BusyWorker, CoresPlan, Hold, Progress};

use super::app::App;
use super::machine::{Event, Machine};
use super::worker::{Doing, Worker};

/// A worker that waits without success is looked at no more often than this.
const REST_LEAST: Nanos = Nanos::from_micros(1);

impl Machine {
    /// The worker is awake: on its core, or, when its groups are others' by now, on some CPU that
    /// no worker has.
    pub(super) fn ready(&mut self, id: u16, generation: u32) {
        let now = self.events.now();
        let worker = &mut self.workers[usize::from(id)];
        if worker.generation != generation || worker.doing != Doing::Waking {
            return;
        }
        let has_core = worker.has_core();
        if worker.is_told {
            self.park(id);
        } else if self.apps[usize::from(worker.app)].is_batch() {
            worker.does(Doing::Working(now), now);
        } else {
            worker.does(if has_core { Doing::Working(now) } else { Doing::Draining }, now);
            self.pass_barriers(id);
            self.go_on(id);
        }
    }

    /// The worker has looked for something to do for long enough.
    pub(super) fn find_nothing(&mut self, id: u16, generation: u32) {
        let worker = &self.workers[usize::from(id)];
        if worker.generation == generation && matches!(worker.doing, Doing::Looking(_)) {
            self.park(id);
        }
    }

    /// The worker has heard that it is to give its core back: between two packets it does.
    pub(super) fn leave(&mut self, id: u16, generation: u32) {
        let worker = &self.workers[usize::from(id)];
        if worker.generation == generation && worker.is_told && worker.current.is_none() {
            self.park(id);
        }
    }

    /// The worker is moved off its core, in the middle of its packet if need be.
    pub(super) fn take_off(&mut self, id: u16, generation: u32) {
        let now = self.events.now();
        let worker = &mut self.workers[usize::from(id)];
        if worker.generation != generation || !worker.is_told || !worker.has_core() {
            return;
        }
        worker.lay_down(self.apps[usize::from(worker.app)].plan.quantum, now);
        self.park(id);
    }

    /// The worker gives its core back.
    pub(super) fn park(&mut self, id: u16) {
        let now = self.events.now();
        let worker = &mut self.workers[usize::from(id)];
        let Some(core) = worker.core.take() else { return };
        worker.does(Doing::Parked, now);
        worker.held += now.since(worker.granted_at);
        worker.is_told = false;
        worker.generation = worker.generation.wrapping_add(1);
        let index = worker.app;
        self.freed_at[usize::from(core.0)] = now;
        if let Some(at) = self.held.iter().position(|held| *held == id) {
            self.held.swap_remove(at);
        }
        let app = &mut self.apps[usize::from(index)];
        app.running -= 1;
        let first = app.first as u16;
        let is_stuck = app.is_stuck();
        if app.plan.system.follows_cores() {
            self.rest(id);
        } else {
            self.watch_rest(id);
        }
        let mut plan = std::mem::take(&mut self.cores_plan);
        self.cores.parked(WorkerId(id), now, &mut plan);
        self.carry(&plan);
        self.cores_plan = plan;
        if is_stuck {
            self.wait_for_core(first);
        }
        if self.has_work(id) {
            self.ring_doorbell(id);
        }
    }

    /// From now on it is without a core, or waits for one: its time runs, if it does not yet.
    fn watch_rest(&mut self, id: u16) {
        let worker = &mut self.workers[usize::from(id)];
        let app = &self.apps[usize::from(worker.app)];
        let system = &app.plan.system;
        let stays = app.is_batch() || system.follows_cores() || system.keeps_flows();
        if stays || app.plan.rest_after == Nanos::FAR_FUTURE || worker.is_timed() {
            return;
        }
        worker.timed = Some(worker.generation);
        let at = self.events.now() + app.plan.rest_after.max(REST_LEAST);
        self.events.put(at, Event::Rest(id, worker.generation));
    }

    /// The worker has been without a core for long.
    pub(super) fn rest_parked(&mut self, id: u16, generation: u32) {
        let worker = &mut self.workers[usize::from(id)];
        if worker.generation != generation || worker.doing != Doing::Parked {
            return;
        }
        worker.timed = None;
        let waits = worker.waits;
        if self.rest(id) {
            self.drain(id);
        } else if waits {
            // Nobody runs to whom they could go. That may change while it waits.
            self.watch_rest(id);
        }
    }

    /// The flows of the worker go to workers that have a core. Whether there is one.
    fn rest(&mut self, id: u16) -> bool {
        let worker = &self.workers[usize::from(id)];
        let (number, index) = (WorkerId(worker.number), worker.app);
        let app = &mut self.apps[usize::from(index)];
        let mut active = app.steering.active().to_vec();
        let runs = |other: &Worker| other.has_core() && !other.is_told && other.number != number.0;
        let others = self.workers[app.workers()].iter().any(runs);
        let system = &app.plan.system;
        let may = (others || system.follows_cores()) && !system.keeps_flows();
        if !may || active.len() < 2 || !active.contains(&number) {
            return false;
        }
        active.retain(|other| *other != number);
        app.steering.set_active(active);
        self.steer_soon(index);
        self.cores.rested(WorkerId(id));
        true
    }

    /// Whether its flows are others' by now, or on their way to them. By Shenango's rule what is in
    /// its ring waits for it to have a core again.
    pub(super) fn rests(&self, id: u16) -> bool {
        let worker = &self.workers[usize::from(id)];
        let app = &self.apps[usize::from(worker.app)];
        let is_active = app.steering.active().contains(&WorkerId(worker.number));
        !is_active && !app.plan.system.follows_cores()
    }

    /// Something has come for a worker without a core. Nobody else can do it: if it rests it wakes
    /// for that, on a CPU that no worker has, and else it waits for a core.
    pub(super) fn ring_doorbell(&mut self, id: u16) {
        if self.rests(id) {
            self.drain(id);
        } else {
            self.wait_for_core(id);
        }
    }

    fn drain(&mut self, id: u16) {
        let wake = self.at(self.plan.costs.wake);
        let now = self.events.now();
        let worker = &mut self.workers[usize::from(id)];
        if worker.doing == Doing::Parked && worker.has_messages() {
            worker.does(Doing::Waking, now);
            worker.generation = worker.generation.wrapping_add(1);
            self.events.put(now + wake, Event::Ready(id, worker.generation));
        }
    }

    /// The worker has a core: it gets its flows back.
    fn rouse(&mut self, id: u16) {
        let worker = &self.workers[usize::from(id)];
        let (number, index) = (WorkerId(worker.number), worker.app);
        let app = &mut self.apps[usize::from(index)];
        if number.0 < app.limit && !app.steering.active().contains(&number) {
            let mut active = app.steering.active().to_vec();
            // By Shenango's rule only running workers have flows.
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

    /// That many of the application's workers may have flows from now on.
    pub(super) fn set_workers(&mut self, index: u16, workers: u16) {
        let app = &mut self.apps[usize::from(index)];
        app.limit = workers;
        // A batch job has no flows.
        if app.is_batch() {
            return;
        }
        if app.plan.system.follows_cores() {
            let mut active = app.steering.active().to_vec();
            active.retain(|worker| worker.0 < workers);
            active = if active.is_empty() { vec![WorkerId(0)] } else { active };
            app.steering.set_active(active);
        } else {
            app.steering.set_active((0..workers).map(WorkerId).collect());
        }
        self.steer_soon(index);
    }

    /// Whether the worker would have something to do if it had a core.
    fn has_work(&self, id: u16) -> bool {
        let worker = &self.workers[usize::from(id)];
        has_work(worker, &self.apps[usize::from(worker.app)])
    }

    /// The worker without a core has something to do: of its application it is the next to get one.
    pub(super) fn wait_for_core(&mut self, id: u16) {
        let worker = &mut self.workers[usize::from(id)];
        let is_batch = self.apps[usize::from(worker.app)].is_batch();
        let is_new = !std::mem::replace(&mut worker.waits, true);
        if is_new {
            self.waiting.push(id);
        }
        self.cores.prefer(WorkerId(id));
        self.tick_soon();
        if is_new && !is_batch {
            self.watch_rest(id);
            self.call();
        }
    }

    /// Who has begun to wait does not wait for a tick: its doorbell has called the dispatcher,
    /// which listens between two bursts.
    fn call(&mut self) {
        if !std::mem::replace(&mut self.has_call, true) {
            let burst = self.port.len().min(base::BURST) as u64;
            let rest = Nanos(self.at(self.plan.costs.dispatch).0 * burst);
            let at = self.dispatcher_free.max(self.events.now()) + rest;
            self.events.put(at, Event::Call);
        }
    }

    /// Ticks come at whole multiples of the interval, while there is something to look at.
    #[inline]
    pub(super) fn tick_soon(&mut self) {
        if !self.has_tick {
            self.has_tick = true;
            let interval = self.cores.interval().0.max(1);
            let now = self.events.now().0;
            self.events.put(Nanos((now / interval + 1) * interval), Event::Tick);
        }
    }

    pub(super) fn tick(&mut self) {
        self.has_tick = false;
        self.step_cores(true);
    }

    /// Somebody called between two ticks.
    pub(super) fn called(&mut self) {
        self.has_call = false;
        self.step_cores(false);
    }

    fn step_cores(&mut self, is_tick: bool) {
        let now = self.events.now();
        self.ticks += 1;
        let cost = Nanos(self.at(self.plan.costs.tick).0 * self.held.len() as u64);
        self.dispatcher_free = self.dispatcher_free.max(now) + cost;
        self.dispatcher_time += cost;
        let has_undone = self.take_sample(now);
        if !is_tick {
            // It serves waiting workers. How far the queues of holders have come is for the policy
            // to compare from tick to tick.
            self.sample.busy.clear();
        }
        // The sample tells what the one before has cost, and costs do not change here.
        self.sample.cost = cost;
        let mut plan = std::mem::take(&mut self.cores_plan);
        self.cores.tick(&self.sample, &mut plan);
        let is_empty = plan.is_empty();
        self.carry(&plan);
        self.cores_plan = plan;
        let is_watched = self.watches_idle && !self.held.is_empty();
        if has_undone || !is_empty || is_watched {
            self.tick_soon();
        }
    }

    /// Whether something waits that was there before.
    fn take_sample(&mut self, now: Nanos) -> bool {
        let Self { sample, held, waiting, workers, apps, cores, .. } = self;
        sample.now = now;
        sample.busy.clear();
        sample.waiting.clear();
        let mut has_undone = false;
        for &id in &*held {
            let worker = &workers[usize::from(id)];
            let app = &apps[usize::from(worker.app)];
            let looking = match worker.doing {
                Doing::Looking(since) => now.since(since),
                _ => Nanos::ZERO,
            };
            let (packets, oldest) = if app.has_one_queue() {
                let oldest = app.queue.front().map(|packet| now.since(packet.arrived));
                (app.queue_progress, oldest.unwrap_or_default())
            } else {
                (worker.progress, worker.oldest(now))
            };
            has_undone |= packets.is_waiting() || worker.is_told;
            let (tasks, idle) = (Progress::default(), worker.idle + looking);
            sample.busy.push(BusyWorker { id: WorkerId(id), packets, tasks, oldest, idle });
        }
        waiting.retain(|&id| {
            let worker = &mut workers[usize::from(id)];
            let app = &apps[usize::from(worker.app)];
            worker.waits = has_work(worker, app);
            has_undone |= worker.waits && !app.is_batch();
            worker.waits
        });
        // The last one named is the first to be served: whoever waits for longest.
        for &id in waiting.iter().rev() {
            cores.prefer(WorkerId(id));
            sample.waiting.push(AppId(workers[usize::from(id)].app));
        }
        has_undone
    }

    fn carry(&mut self, plan: &CoresPlan) {
        let now = self.events.now();
        let costs = &self.plan.costs;
        let (wake, switch) = (self.at(costs.wake), self.at(costs.switch));
        let revoke = self.at(costs.revoke);
        for &Hold { worker: id, core } in &plan.grants {
            let worker = &mut self.workers[id.index()];
            worker.lay_down(self.apps[usize::from(worker.app)].plan.quantum, now);
            worker.core = Some(core);
            worker.granted_at = now;
            worker.does(Doing::Waking, now);
            worker.is_told = false;
            worker.generation = worker.generation.wrapping_add(1);
            if std::mem::take(&mut worker.waits) {
                self.waiting.retain(|&waiting| waiting != id.0);
            }
            self.held.push(id.0);
            self.apps[usize::from(worker.app)].running += 1;
            self.apps[usize::from(worker.app)].outcome.grants += 1;
            // A core that has been idle for however short a time is asleep.
            let is_warm = self.freed_at[usize::from(core.0)] == now;
            let ready = now + if is_warm { switch } else { wake };
            self.events.put(ready, Event::Ready(id.0, worker.generation));
            self.rouse(id.0);
        }
        for &Hold { worker: id, .. } in plan.parks.iter().chain(&plan.revokes) {
            let worker = &mut self.workers[id.index()];
            worker.is_told = true;
            worker.generation = worker.generation.wrapping_add(1);
            self.apps[usize::from(worker.app)].outcome.revokes += 1;
            self.events.put(now + revoke, Event::Leave(id.0, worker.generation));
            if !self.apps[usize::from(self.workers[id.index()].app)].is_batch() {
                self.rest(id.0);
            }
        }
        for &Hold { worker: id, .. } in &plan.takes {
            let generation = self.workers[id.index()].generation;
            self.events.put(now + revoke, Event::Take(id.0, generation));
        }
        for &WorkerId(id) in &plan.rests {
            if self.rest(id) {
                self.drain(id);
            }
        }
    }
}

/// Whether a worker without a core has something to do, and nobody else does it.
fn has_work(worker: &Worker, app: &App) -> bool {
    worker.doing == Doing::Parked
        && (app.is_batch() || worker.has_messages() || app.is_stuck() && worker.number == 0)
}
