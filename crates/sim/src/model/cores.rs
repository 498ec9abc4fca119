//! Cores: who gets one, who gives one back, and what becomes of the flows of those without.

use base::{Nanos, WorkerId};
use policy::cores::{AppId, BusyWorker, CoresPlan, Hold, Progress};

use super::app::NOBODY;
use super::plant::{Event, Plant};
use super::worker::Doing;

impl Plant {
    pub(super) fn ready(&mut self, id: u16, generation: u32) {
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
    pub(super) fn park(&mut self, id: u16) {
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
    pub(super) fn rest(&mut self, id: u16) {
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
    pub(super) fn rouse(&mut self, id: u16) {
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

    pub(super) fn tick_soon(&mut self) {
        if !self.ticks {
            self.ticks = true;
            let interval = self.cores.interval().0.max(1);
            let now = self.events.now().0;
            self.events.put(Nanos((now / interval + 1) * interval), Event::Tick);
        }
    }

    pub(super) fn tick(&mut self) {
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
                    tasks: Progress::default(),
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

    pub(super) fn carry(&mut self, plan: &CoresPlan) {
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
}
