//! The loop: samples and events in, plans out, for any policy.
//!
//! The contract: [`CoresControl::tick`] whenever [`CoresControl::interval`] has passed. Each park,
//! revocation and take of a plan is answered, sooner or later, by [`CoresControl::parked`] or
//! [`CoresControl::worker_gone`]; so is a grant that the worker gives back by itself. Every call
//! replaces what the plan held, and what it holds then is carried out before the next call.

use base::{AppId, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::app::{AppTerms, Class, CoresRefused};
use super::interval::Interval;
use super::plan::{CoresPlan, Hold};
use super::record::{CoresSnapshot, What};
use super::sample::CoresSample;
use super::table::{Freed, Table};
use super::{Allocate, Asks, CoreId};
use crate::number;
use crate::record::Recorder;

/// What is the same for every policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoresConfig {
    /// The time from tick to tick that is wished for: 1 us to 10 ms. Ticks are never so frequent
    /// that they take more than a tenth of the time.
    #[serde(with = "number::nanos")]
    pub interval: Nanos,
    /// A worker that was told to park and has not after this long is moved off its core.
    #[serde(with = "number::nanos")]
    pub yield_bound: Nanos,
}

impl Default for CoresConfig {
    fn default() -> Self {
        Self {
            // Shenango's.
            interval: Nanos::from_micros(5),
            // A worker passes a poll boundary within a few microseconds, and a signal to one that
            // sleeps takes some tens: whoever needs longer than both computes, or will not listen.
            yield_bound: Nanos::from_micros(100),
        }
    }
}

/// Gives cores to applications and takes them back.
pub struct CoresControl {
    pub(super) config: CoresConfig,
    pub(super) policy: Box<dyn Allocate>,
    pub(super) table: Table,
    pub(super) asks: Asks,
    pub(super) interval: Interval,
    /// Applications that asked in the last tick and got nothing, longest waiting first.
    pub(super) unserved: Vec<AppId>,
    /// The same of the tick under way.
    pub(super) left: Vec<AppId>,
    pub(super) recorder: Option<Box<Recorder<CoresSnapshot>>>,
}

/// A round of serving. An application is served in the first one that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    Guaranteed,
    Latency,
    Batch,
}

impl CoresControl {
    /// Nobody has any of these cores yet.
    ///
    /// # Errors
    /// No core, more than [`CoreId::COUNT_MAX`], or one twice.
    pub fn new(
        config: CoresConfig,
        policy: Box<dyn Allocate>,
        cores: &[CoreId],
    ) -> Result<Self, CoresRefused> {
        Ok(Self {
            config,
            policy,
            table: Table::new(cores)?,
            asks: Asks::default(),
            interval: Interval::new(config.interval),
            unserved: Vec::new(),
            left: Vec::new(),
            recorder: None,
        })
    }

    /// The applications that asked for a core in the last tick.
    pub fn asked(&self) -> &[AppId] {
        &self.asks.more
    }

    /// Which worker holds which core.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The name of the policy in force.
    pub fn policy(&self) -> &'static str {
        self.policy.name()
    }

    /// The time until the next tick is due, from the last one on.
    pub fn interval(&self) -> Nanos {
        self.interval.current()
    }

    /// The longest time for which a worker that was told to park keeps its core.
    pub fn yield_bound(&self) -> Nanos {
        self.config.yield_bound
    }

    /// An application comes with these workers, all parked.
    ///
    /// # Errors
    /// The terms cannot be kept; nothing has changed.
    pub fn add_app(&mut self, terms: AppTerms, workers: &[WorkerId]) -> Result<(), CoresRefused> {
        self.table.add_app(terms, workers)?;
        let (worker_limit, app_limit) = self.table.limits();
        self.policy.make_room(worker_limit, app_limit);
        self.policy.app_added(terms.id);
        self.make_room();
        self.note_app(terms, workers);
        Ok(())
    }

    pub(super) fn make_room(&mut self) {
        let (workers, apps) = self.table.limits();
        self.asks.make_room(workers, apps);
        for list in [&mut self.unserved, &mut self.left] {
            list.reserve(apps.saturating_sub(list.len()));
        }
    }

    /// Another policy from the next tick on. Nobody loses a core by that alone.
    pub fn set_policy(&mut self, mut policy: Box<dyn Allocate>) {
        let (workers, apps) = self.table.limits();
        policy.make_room(workers, apps);
        self.note_policy(&*policy);
        self.policy = policy;
    }

    /// A control tick. Its work is bounded by the workers of the sample; it allocates nothing.
    pub fn tick(&mut self, sample: &CoresSample, plan: &mut CoresPlan) {
        plan.clear();
        let now = sample.now;
        self.interval.learn(sample.cost);
        self.take_overdue(now, plan);
        self.asks.begin();
        sample.waiting.iter().for_each(|&app| self.asks.more(app));
        self.policy.observe(sample, &self.table, &mut self.asks);
        self.rouse();
        self.give_up(now, plan);
        self.lay_down(now, plan);
        self.serve_all(now, plan);
        // A worker that has just been given a core keeps its flows.
        plan.rests.retain(|&worker| self.table.place(worker).is_none());
        self.note_tick(sample, plan);
    }

    /// The parked worker has work that only it can do. Its application asks by the next sample; of
    /// its workers this is the first to run then.
    pub fn prefer(&mut self, worker: WorkerId) {
        self.table.prefer(worker);
        self.note(|| What::Prefer(worker));
    }

    /// The worker has no core and its flows are others' now, or on their way to them. With its next
    /// core it has them back.
    pub fn rested(&mut self, worker: WorkerId) {
        self.table.rested(worker);
        self.note(|| What::Rested(worker));
    }

    /// The worker has given its core back. False: it had none.
    pub fn parked(&mut self, worker: WorkerId, now: Nanos, plan: &mut CoresPlan) -> bool {
        plan.clear();
        // Whoever gives a core back needs no other one.
        let app = self.table.app_of(worker);
        self.unserved.retain(|&unserved| Some(unserved) != app);
        let held = self.freed(worker, false, now, plan);
        if held {
            self.note(|| What::Parked);
        }
        self.note_plan(plan);
        self.note(|| What::WorkerParked(worker, now));
        held
    }

    /// The worker is dead. Its core is free.
    pub fn worker_gone(&mut self, worker: WorkerId, now: Nanos, plan: &mut CoresPlan) {
        plan.clear();
        self.freed(worker, true, now, plan);
        self.note_plan(plan);
        self.note(|| What::WorkerGone(worker, now));
    }

    /// The application and all its workers are gone. Their cores are free, and its id as well.
    pub fn remove_app(&mut self, app: AppId, now: Nanos, plan: &mut CoresPlan) {
        plan.clear();
        self.unserved.retain(|&unserved| unserved != app);
        let workers = self.table.workers_of(app);
        // Those on their way first, so that no core goes to them.
        for &worker in &workers {
            if self.table.place(worker).is_none() {
                self.table.drop_worker(worker);
            }
        }
        for worker in workers {
            self.freed(worker, true, now, plan);
        }
        self.table.drop_app(app);
        self.policy.app_gone(app);
        self.note_plan(plan);
        self.note(|| What::RemoveApp(app, now));
    }

    /// Frees the worker's core for whoever waits for it. Whether it had one.
    fn freed(&mut self, worker: WorkerId, is_gone: bool, now: Nanos, plan: &mut CoresPlan) -> bool {
        let freed = self.table.free(worker, now);
        if is_gone {
            self.table.drop_worker(worker);
        }
        match freed {
            None => return false,
            Some(Freed::Granted(next, core)) => {
                plan.grants.push(Hold { worker: next, core });
                self.policy.granted(next, &self.table);
            }
            Some(Freed::Idle) => {
                let mut unserved = std::mem::take(&mut self.unserved);
                let served = [Round::Guaranteed, Round::Latency, Round::Batch]
                    .into_iter()
                    .find_map(|round| {
                        unserved.iter().position(|&app| {
                            self.belongs(app, round) && self.grant_idle(app, now, plan)
                        })
                    });
                if let Some(served) = served {
                    unserved.remove(served);
                }
                self.unserved = unserved;
            }
        }
        true
    }

    /// Workers that were told to park and did not.
    fn take_overdue(&mut self, now: Nanos, plan: &mut CoresPlan) {
        for at in 0..self.table.leaving.len() {
            let worker = self.table.leaving[at];
            let again = now + self.config.yield_bound;
            if let Some(core) = self.table.overdue(worker, now, again) {
                plan.takes.push(Hold { worker, core });
            }
        }
    }

    /// Workers that are to have flows again: of its application such a worker is the next to run,
    /// unless another one has work that waits already.
    fn rouse(&mut self) {
        for at in 0..self.asks.rouses.len() {
            let (app, worker) = self.asks.rouses[at];
            if !self.asks.asked_more(app) {
                self.table.prefer(worker);
            }
            self.asks.more(app);
        }
    }

    /// Workers that are to have no flows.
    fn lay_down(&mut self, now: Nanos, plan: &mut CoresPlan) {
        for at in 0..self.asks.rests.len() {
            let worker = self.asks.rests[at];
            if self.table.running(worker).is_some() {
                self.tell(worker, now, &mut plan.parks);
            } else if self.table.place(worker).is_none() {
                plan.rests.push(worker);
            }
        }
    }

    /// Applications with a core too many give one up, the latest granted.
    fn give_up(&mut self, now: Nanos, plan: &mut CoresPlan) {
        for at in 0..self.asks.fewer.len() {
            let id = self.asks.fewer[at];
            let Some(app) = self.table.app(id) else { continue };
            // Who asks for both has work that its running workers do not see.
            let most = usize::from(self.policy.cores_max(&app.terms));
            if self.asks.asked_more(id) && app.cores() <= most {
                continue;
            }
            let Some(&worker) = app.active.last() else { continue };
            self.tell(worker, now, &mut plan.parks);
        }
    }

    /// Serves the applications that asked: guarantees before the rest, batch jobs last, and in each
    /// round those first that got nothing for longest.
    fn serve_all(&mut self, now: Nanos, plan: &mut CoresPlan) {
        self.left.clear();
        for round in [Round::Guaranteed, Round::Latency, Round::Batch] {
            for at in 0..self.unserved.len() {
                let app = self.unserved[at];
                if self.asks.asked_more(app) {
                    self.serve(app, round, now, plan);
                }
            }
            for at in 0..self.asks.more.len() {
                self.serve(self.asks.more[at], round, now, plan);
            }
        }
        std::mem::swap(&mut self.unserved, &mut self.left);
    }

    /// Serves the application if this is its round and it has not been in this tick.
    fn serve(&mut self, id: AppId, round: Round, now: Nanos, plan: &mut CoresPlan) {
        let tick = self.asks.tick;
        if !self.belongs(id, round) || self.table.app(id).is_none_or(|app| app.served_at == tick) {
            return;
        }
        if let Some(app) = self.table.app_mut(id) {
            app.served_at = tick;
        }
        if !self.grant_idle(id, now, plan) && !self.revoke_for(id, now, plan) {
            self.left.push(id);
        }
    }

    /// Whether the application is served in this round, and may have one core more at all.
    fn belongs(&self, id: AppId, round: Round) -> bool {
        let Some(app) = self.table.app(id) else { return false };
        let most = usize::from(self.policy.cores_max(&app.terms));
        let own = match app.terms.class {
            _ if app.is_below_guarantee() => Round::Guaranteed,
            Class::Latency => Round::Latency,
            Class::Batch => Round::Batch,
        };
        own == round && app.cores() < most && !app.parked.is_empty()
    }

    fn grant_idle(&mut self, id: AppId, now: Nanos, plan: &mut CoresPlan) -> bool {
        let picked = self.table.app(id).and_then(|app| self.table.pick_idle(app));
        let Some((worker, place)) = picked else { return false };
        let core = self.table.grant(worker, place, now);
        plan.grants.push(Hold { worker, core });
        self.policy.granted(worker, &self.table);
        true
    }

    /// Has a core freed for the application. One at a time: until it is there, nobody knows
    /// whether it is enough.
    fn revoke_for(&mut self, id: AppId, now: Nanos, plan: &mut CoresPlan) -> bool {
        let Some(app) = self.table.app(id) else { return false };
        if app.coming > 0 {
            return true;
        }
        if app.terms.class != Class::Batch
            && let Some((worker, place)) = self.table.pick_leaving(app)
        {
            self.table.reserve(worker, place);
            return true;
        }
        let Some((worker, place)) = self.table.pick_burst(id) else { return false };
        if let Some(holder) = self.table.cores[place].holder {
            self.tell(holder, now, &mut plan.revokes);
        }
        self.table.reserve(worker, place);
        true
    }

    fn tell(&mut self, worker: WorkerId, now: Nanos, list: &mut Vec<Hold>) {
        let Some(place) = self.table.place(worker) else { return };
        self.table.leave(worker, now + self.config.yield_bound);
        list.push(Hold { worker, core: self.table.cores[place].id });
    }
}
