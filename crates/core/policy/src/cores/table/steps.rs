//! The steps that a core and a worker can take.

use base::{AppId, Nanos, WorkerId};

use super::{State, Table, Worker};
use crate::cores::{Class, CoreId};

impl Table {
    /// The parked worker gets an idle core.
    pub(in crate::cores) fn grant(&mut self, worker: WorkerId, place: usize, now: Nanos) -> CoreId {
        self.idle.remove(place);
        let app = self.set_state(worker, State::Active(place as u16));
        if let Some(app) = app.and_then(|app| self.app_mut(app)) {
            remove(&mut app.parked, worker);
            app.wanted = false;
            app.active.push(worker);
        }
        self.hold(worker, place, now)
    }

    /// The parked worker gets this core when its holder has parked.
    pub(in crate::cores) fn reserve(&mut self, worker: WorkerId, place: usize) {
        debug_assert!(self.cores[place].next.is_none(), "a core goes to one worker");
        self.cores[place].next = Some(worker);
        let app = self.set_state(worker, State::Coming(place as u16));
        if let Some(id) = app
            && let Some(app) = self.app_mut(id)
        {
            remove(&mut app.parked, worker);
            app.wanted = false;
            app.coming += 1;
            self.weigh(id);
        }
    }

    /// The parked worker has work that only it can do: of its application's, it is the next to run.
    pub(in crate::cores) fn prefer(&mut self, worker: WorkerId) {
        let Some(&Worker { app: id, state: State::Parked, .. }) = self.worker(worker) else {
            return;
        };
        if let Some(app) = self.app_mut(id) {
            remove(&mut app.parked, worker);
            app.parked.push(worker);
            app.wanted = true;
        }
    }

    /// The flows of the worker are others' until it has a core. One that has a core already has got
    /// them back.
    pub(in crate::cores) fn rested(&mut self, worker: WorkerId) {
        if let Some(Some(worker)) = self.workers.get_mut(worker.index()) {
            worker.rests = !matches!(worker.state, State::Active(_));
        }
    }

    /// The active worker was told to park.
    pub(in crate::cores) fn leave(&mut self, worker: WorkerId, deadline: Nanos) {
        let Some(place) = self.place(worker) else { return };
        let app = self.set_state(worker, State::Leaving(place as u16, deadline));
        self.leaving.push(worker);
        if let Some(id) = app
            && let Some(app) = self.app_mut(id)
        {
            remove(&mut app.active, worker);
            self.weigh(id);
        }
    }

    /// When a worker that was told to park is to be moved, and another deadline after that.
    pub(in crate::cores) fn overdue(
        &mut self,
        worker: WorkerId,
        now: Nanos,
        again: Nanos,
    ) -> Option<CoreId> {
        let State::Leaving(place, deadline) = self.worker(worker)?.state else { return None };
        if now < deadline {
            return None;
        }
        self.set_state(worker, State::Leaving(place, again));
        Some(self.cores[usize::from(place)].id)
    }

    /// The worker has no core any more. The worker that waited for its core gets it; without one it
    /// is idle. `None`: it had none.
    pub(in crate::cores) fn free(&mut self, worker: WorkerId, now: Nanos) -> Option<Freed> {
        let Worker { app: id, state, .. } = *self.worker(worker)?;
        let (State::Active(place) | State::Leaving(place, _)) = state else { return None };
        self.set_state(worker, State::Parked);
        if matches!(state, State::Leaving(..)) {
            remove(&mut self.leaving, worker);
        }
        let app = self.app_mut(id)?;
        if matches!(state, State::Active(_)) {
            remove(&mut app.active, worker);
        }
        app.parked.push(worker);
        app.wanted = false;
        self.weigh(id);
        let place = usize::from(place);
        let core = &mut self.cores[place];
        core.holder = None;
        core.since = now;
        let next = core.next.take();
        let Some(next) = next else {
            self.idle.push(place);
            return Some(Freed::Idle);
        };
        let app = self.set_state(next, State::Active(place as u16));
        if let Some(id) = app
            && let Some(app) = self.app_mut(id)
        {
            app.coming -= 1;
            app.active.push(next);
            self.weigh(id);
        }
        Some(Freed::Granted(next, self.hold(next, place, now)))
    }

    /// The worker is no more; one that holds a core is freed first.
    pub(in crate::cores) fn drop_worker(&mut self, worker: WorkerId) {
        let Some(Worker { app: id, state, .. }) = self.worker(worker).copied() else { return };
        debug_assert!(matches!(state, State::Parked | State::Coming(_)), "it was freed");
        self.workers[worker.index()] = None;
        if let State::Coming(place) = state {
            self.cores[usize::from(place)].next = None;
        }
        if let Some(app) = self.app_mut(id) {
            remove(&mut app.parked, worker);
            app.wanted = false;
            app.coming -= u16::from(matches!(state, State::Coming(_)));
            self.weigh(id);
        }
    }

    fn hold(&mut self, worker: WorkerId, place: usize, now: Nanos) -> CoreId {
        if let Some(Some(worker)) = self.workers.get_mut(worker.index()) {
            worker.last = Some(place as u16);
            worker.rests = false;
        }
        if let Some(app) = self.app_of(worker) {
            self.weigh(app);
        }
        let core = &mut self.cores[place];
        core.holder = Some(worker);
        core.last = Some(worker);
        core.since = now;
        core.id
    }

    /// Whether the application has more than is guaranteed to it may have changed.
    pub(super) fn weigh(&mut self, id: AppId) {
        let Some(app) = self.app(id) else { return };
        let bursts = app.cores() > usize::from(app.terms.guaranteed) && !app.active.is_empty();
        let list = usize::from(app.terms.class != Class::Batch);
        let mut place = app.burst_place;
        match (place, bursts) {
            (None, true) => {
                place = Some(self.bursting[list].len());
                self.bursting[list].push(id);
            }
            (Some(at), false) => {
                self.bursting[list].swap_remove(at);
                if let Some(&moved) = self.bursting[list].get(at)
                    && let Some(moved) = self.app_mut(moved)
                {
                    moved.burst_place = Some(at);
                }
                place = None;
            }
            _ => return,
        }
        if let Some(app) = self.app_mut(id) {
            app.burst_place = place;
        }
    }
}

/// What became of a core that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cores) enum Freed {
    Idle,
    Granted(WorkerId, CoreId),
}

/// From the end, where it mostly is. The order of the others stays.
fn remove(list: &mut Vec<WorkerId>, worker: WorkerId) {
    if let Some(at) = list.iter().rposition(|&listed| listed == worker) {
        list.remove(at);
    }
}
