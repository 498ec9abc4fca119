//! `packing`: as few cores as serve the load within the objective, and as few moves as that takes.
//!
//! Every worker that has flows wakes for its own packets, so ten workers with a tenth of a core's
//! work each hold ten cores, and every packet finds one of them asleep. Here an application begins
//! with one worker; another gets flows when one is not enough: when an item waits for longer than
//! the objective, or when the cores are busy for longer than is good for a queue. When fewer are
//! enough, all that are too many give their flows away at once, so that no flow moves twice.
//!
//! A worker that reports its idle time is as busy as it reports. Any other one is judged by its
//! queue: a worker with many items in its queue works all the time until the next tick, and what it
//! did in that time tells what an item takes. So no worker has to be believed, and one that lies
//! changes nothing but its own application's cores. How many cores a load takes is decided in
//! `load.rs`.

mod load;

use base::{AppId, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::app::Class;
use super::sample::{BusyWorker, CoresSample};
use super::table::{App, Table};
use super::{Allocate, Asks, Saved, SavedAllocate};
use crate::number;
use load::{Load, Work};

/// An item that waits for longer than this, and than an item takes, is late, where the application
/// has no queue delay of its own: waking a halted core takes about as long.
const OBJECTIVE: Nanos = Nanos::from_micros(50);

/// A worker with this many items in its queue works until the next tick.
const BACKLOG: u32 = 8;

/// What was seen of workers and applications.
#[derive(Clone, Debug, Default)]
pub(super) struct Packing {
    /// By worker.
    workers: Vec<Seen>,
    /// By application.
    apps: Vec<Load>,
    /// Applications of this tick.
    seen: Vec<AppId>,
}

/// A worker at its last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    stage: Stage,
    put: u32,
    taken: u32,
    #[serde(with = "number::nanos")]
    idle: Nanos,
    #[serde(with = "number::nanos")]
    at: Nanos,
    /// Something was in its queue.
    waited: bool,
    /// Since when it runs.
    #[serde(with = "number::nanos")]
    runs: Nanos,
}

/// How far a worker has come since its grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// Never seen.
    #[default]
    Unknown,
    /// It may not run yet: what waits there waits for its core to wake.
    Granted,
    /// It runs. What waits may have come before it did, for a while.
    Runs,
    /// Its queue has been empty: what waits now, waits for it.
    CaughtUp,
}

/// All that it remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figures {
    workers: Vec<(u16, Seen)>,
    #[serde(with = "number::by_app")]
    apps: Vec<(AppId, Load)>,
}

impl Figures {
    pub(super) fn workers(&self) -> impl Iterator<Item = u16> {
        self.workers.iter().map(|&(worker, _)| worker)
    }
}

impl Packing {
    pub(super) fn restore(figures: &Figures) -> Self {
        let mut policy = Self::default();
        for &(worker, seen) in &figures.workers {
            policy.make_room(usize::from(worker) + 1, 0);
            policy.workers[usize::from(worker)] = seen;
        }
        for &(app, load) in &figures.apps {
            policy.make_room(0, app.index() + 1);
            policy.apps[app.index()] = load;
        }
        policy
    }

    fn look(&mut self, busy: &BusyWorker, now: Nanos, table: &Table) {
        let Some(app) = table.running(busy.id) else { return };
        if app.terms.class == Class::Batch {
            return;
        }
        let id = app.terms.id;
        let (Some(seen), Some(load)) =
            (self.workers.get_mut(busy.id.index()), self.apps.get_mut(id.index()))
        else {
            return;
        };
        if load.is_first_of_tick(now) {
            self.seen.push(id);
        }
        let objective = match app.terms.queue_delay {
            Nanos::ZERO => OBJECTIVE,
            own => own,
        };
        let work = seen.step(busy, now);
        load.add(work);
        // The item that is being worked on may be the oldest.
        let objective = objective + load.service();
        let is_judged = seen.stage == Stage::CaughtUp
            || seen.stage == Stage::Runs && now.since(seen.runs) >= objective;
        load.is_late |= is_judged && busy.oldest >= objective;
    }
}

impl Seen {
    fn step(&mut self, sample: &BusyWorker, now: Nanos) -> Work {
        let BusyWorker { packets, tasks, idle, .. } = *sample;
        let put = packets.put.wrapping_add(tasks.put);
        let taken = packets.taken.wrapping_add(tasks.taken);
        let waits = packets.is_waiting() || tasks.is_waiting();
        let before =
            std::mem::replace(self, Self { put, taken, idle, at: now, waited: waits, ..*self });
        let mut work = Work::default();
        if before.stage != Stage::Unknown {
            // The counters wrap around, and come from memory that an application may write: they
            // never count for more than what a core could do in the time.
            let most = (now.since(before.at).0 / 16).min(u64::from(u32::MAX)) as u32 + 4096;
            work.put = put.wrapping_sub(before.put).min(most);
            work.taken = taken.wrapping_sub(before.taken).min(most);
        }
        if before.stage >= Stage::Runs {
            let passed = now.since(before.at);
            if idle > Nanos::ZERO {
                work.busy = passed - idle.since(before.idle);
                (work.sure, work.sure_taken) = (work.busy, work.taken);
            } else if before.waited {
                work.busy = passed;
                // Chosen by what was there and not by what was done, or slow items would be chosen.
                let there = before.put.wrapping_sub(before.taken);
                if there >= BACKLOG {
                    (work.sure, work.sure_taken) = (passed, work.taken);
                }
            }
        }
        let moves = taken != before.taken || idle != before.idle;
        self.stage = match before.stage {
            Stage::Unknown => Stage::Granted,
            Stage::Granted if !moves && waits => Stage::Granted,
            Stage::Granted | Stage::Runs if waits => Stage::Runs,
            Stage::Granted | Stage::Runs | Stage::CaughtUp => Stage::CaughtUp,
        };
        if self.stage >= Stage::Runs && before.stage < Stage::Runs {
            self.runs = now;
        }
        work
    }
}

impl Allocate for Packing {
    fn name(&self) -> &'static str {
        "packing"
    }

    fn observe(&mut self, sample: &CoresSample, table: &Table, asks: &mut Asks) {
        for busy in &sample.busy {
            self.look(busy, sample.now, table);
        }
        for at in 0..self.seen.len() {
            let id = self.seen[at];
            let (Some(app), Some(load)) = (table.app(id), self.apps.get_mut(id.index())) else {
                continue;
            };
            decide(app, load, table, sample.now, asks);
        }
        self.seen.clear();
    }

    fn granted(&mut self, worker: WorkerId, _: &Table) {
        if let Some(seen) = self.workers.get_mut(worker.index()) {
            seen.stage = seen.stage.min(Stage::Granted);
        }
    }

    fn app_added(&mut self, app: AppId) {
        if let Some(load) = self.apps.get_mut(app.index()) {
            *load = Load::of_a_new_application();
        }
    }

    fn app_gone(&mut self, app: AppId) {
        if let Some(load) = self.apps.get_mut(app.index()) {
            *load = Load::default();
        }
    }

    fn make_room(&mut self, workers: usize, apps: usize) {
        self.workers.resize(self.workers.len().max(workers), Seen::default());
        self.apps.resize(self.apps.len().max(apps), Load::default());
        self.seen.reserve(apps);
    }

    fn save(&self) -> SavedAllocate {
        let workers = self.workers.iter().enumerate();
        let workers = workers.filter(|(_, seen)| **seen != Seen::default());
        let apps = self.apps.iter().enumerate().filter(|(_, load)| **load != Load::default());
        let figures = Figures {
            workers: workers.map(|(id, seen)| (id as u16, *seen)).collect(),
            apps: apps.map(|(id, load)| (AppId(id as u16), *load)).collect(),
        };
        Saved::Packing(figures).into()
    }
}

/// Asks for what makes the application's workers with flows as many as its load takes.
fn decide(app: &App, load: &mut Load, table: &Table, now: Nanos, asks: &mut Asks) {
    let rests = |worker: &&WorkerId| table.rests(**worker);
    let spread = |app: &App| app.cores() + app.parked().iter().filter(|one| !rests(one)).count();
    if load.begins() {
        // Nothing has come yet that would have to move: one is enough until it is not.
        app.parked().iter().filter(|one| !rests(one)).for_each(|&worker| asks.rest(worker));
        return;
    }
    if !load.has_news(now) {
        return;
    }
    let workers = spread(app);
    let most = (app.cores() + app.parked().len()).min(usize::from(app.terms.burst)).max(1);
    let target = load.target(now, workers, most);
    if target > workers
        && let Some(&worker) = app.parked().iter().rfind(rests)
    {
        asks.rouse(app.terms.id, worker);
    }
    // Those without a core first: they have nothing in their hands. Then the latest that came.
    let idle = app.parked().iter().filter(|one| !rests(one));
    let too_many = idle.chain(app.active().iter().rev()).take(workers.saturating_sub(target));
    too_many.for_each(|&worker| asks.rest(worker));
}
