//! The table as data: a recording of the core control begins with it.

use base::{AppId, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::{App, State, Table};
use crate::cores::CoreId;
use crate::cores::app::AppTerms;
use crate::cores::idle::IdleList;
use crate::number;

/// Everything that a table holds. Places are positions in `cores`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cores) struct SavedTable {
    cores: Vec<SavedCore>,
    /// Places of idle cores, the one that has been idle for longest first.
    idle: Vec<u16>,
    apps: Vec<SavedApp>,
    #[serde(with = "number::workers")]
    leaving: Vec<WorkerId>,
    #[serde(with = "number::both_apps")]
    bursting: [Vec<AppId>; 2],
    turns: [u16; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedCore {
    id: CoreId,
    last: Option<u16>,
    since: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedApp {
    terms: AppTerms,
    /// Worker and place.
    active: Vec<(u16, u16)>,
    parked: Vec<u16>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    wanted: bool,
    /// Worker and the place that it waits for.
    coming: Vec<(u16, u16)>,
    /// Worker, place and deadline.
    leaving: Vec<(u16, u16, u64)>,
    /// Worker and the place where it ran last.
    last: Vec<(u16, u16)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rests: Vec<u16>,
    served_at: u64,
}

impl Table {
    pub(in crate::cores) fn save(&self) -> SavedTable {
        let core = |core: &super::Core| {
            let last = core.last.map(|worker| worker.0);
            SavedCore { id: core.id, last, since: core.since.0 }
        };
        SavedTable {
            cores: self.cores.iter().map(core).collect(),
            idle: self.idle.iter().map(|place| place as u16).collect(),
            apps: self.apps().map(|app| self.save_app(app)).collect(),
            leaving: self.leaving.clone(),
            bursting: self.bursting.clone(),
            turns: self.turns.map(|turn| turn as u16),
        }
    }

    fn save_app(&self, app: &App) -> SavedApp {
        let mut saved = SavedApp {
            terms: app.terms,
            active: Vec::new(),
            parked: app.parked.iter().map(|worker| worker.0).collect(),
            wanted: app.wanted,
            coming: Vec::new(),
            leaving: Vec::new(),
            last: Vec::new(),
            rests: Vec::new(),
            served_at: app.served_at,
        };
        let place = |&worker: &WorkerId| Some((worker.0, self.place(worker)? as u16));
        saved.active.extend(app.active.iter().filter_map(place));
        for id in self.workers_of(app.terms.id) {
            let Some(worker) = self.worker(id) else { continue };
            saved.last.extend(worker.last.map(|last| (id.0, last)));
            saved.rests.extend(worker.rests.then_some(id.0));
            match worker.state {
                State::Coming(place) => saved.coming.push((id.0, place)),
                State::Leaving(place, deadline) => saved.leaving.push((id.0, place, deadline.0)),
                State::Parked | State::Active(_) => {}
            }
        }
        saved
    }

    /// The table as it was saved; what is impossible in it comes back as a sentence.
    pub(in crate::cores) fn restore(saved: SavedTable) -> Result<Self, String> {
        let ids: Vec<CoreId> = saved.cores.iter().map(|core| core.id).collect();
        let mut table = Self::new(&ids).map_err(|refused| refused.to_string())?;
        for (core, saved) in table.cores.iter_mut().zip(&saved.cores) {
            core.last = saved.last.map(WorkerId);
            core.since = Nanos(saved.since);
        }
        for app in &saved.apps {
            table.restore_app(app)?;
        }
        for app in &saved.apps {
            table.restore_coming(app)?;
            table.weigh(app.terms.id);
        }
        let mut leaving = saved.leaving.clone();
        let mut told = table.leaving.clone();
        leaving.sort_unstable();
        told.sort_unstable();
        if leaving != told {
            return Err("the workers that were told to park are not those listed".to_owned());
        }
        table.leaving = saved.leaving;
        table.restore_idle(&saved.idle)?;
        table.restore_bursting(saved.bursting)?;
        table.turns = saved.turns.map(usize::from);
        Ok(table)
    }

    fn restore_app(&mut self, saved: &SavedApp) -> Result<(), String> {
        let SavedApp { terms, active, parked, wanted, coming, leaving, last, rests, served_at } =
            saved;
        let holders = active.iter().copied();
        let holders: Vec<(u16, u16)> =
            holders.chain(leaving.iter().map(|&(worker, place, _)| (worker, place))).collect();
        let workers = parked.iter().copied();
        let workers = workers.chain(holders.iter().chain(coming).map(|&(worker, _)| worker));
        let workers: Vec<WorkerId> = workers.map(WorkerId).collect();
        // A worker that is gone took none of its application's guarantee along.
        let lent = AppTerms { guaranteed: terms.guaranteed.min(workers.len() as u16), ..*terms };
        self.add_app(lent, &workers).map_err(|refused| refused.to_string())?;
        self.guaranteed += usize::from(terms.guaranteed - lent.guaranteed);
        if self.guaranteed > self.cores.len() {
            return Err("more cores are guaranteed than there are".to_owned());
        }
        for &(worker, place) in &holders {
            let core = self.cores.get_mut(usize::from(place)).ok_or("a worker holds no core")?;
            if core.holder.replace(WorkerId(worker)).is_some() {
                return Err(format!("core {} has two holders", core.id));
            }
        }
        for &(worker, place) in active {
            self.set_state(WorkerId(worker), State::Active(place));
        }
        for &(worker, place, deadline) in leaving {
            self.set_state(WorkerId(worker), State::Leaving(place, Nanos(deadline)));
            self.leaving.push(WorkerId(worker));
        }
        for &(worker, place) in last {
            let known = workers.contains(&WorkerId(worker));
            if !known || usize::from(place) >= self.cores.len() {
                return Err(format!("worker {worker} ran on no core that there is"));
            }
            if let Some(Some(worker)) = self.workers.get_mut(usize::from(worker)) {
                worker.last = Some(place);
            }
        }
        for &worker in rests {
            if !workers.contains(&WorkerId(worker)) {
                return Err(format!("worker {worker} rests and is not there"));
            }
            self.rested(WorkerId(worker));
        }
        if let Some(app) = self.app_mut(terms.id) {
            app.terms = *terms;
            app.active.clear();
            app.active.extend(active.iter().map(|&(worker, _)| WorkerId(worker)));
            app.parked.clear();
            app.parked.extend(parked.iter().copied().map(WorkerId));
            app.wanted = *wanted && !parked.is_empty();
            app.served_at = *served_at;
        }
        Ok(())
    }

    fn restore_coming(&mut self, saved: &SavedApp) -> Result<(), String> {
        for &(worker, place) in &saved.coming {
            let core = self.cores.get(usize::from(place)).ok_or("a worker waits for no core")?;
            let holder = core.holder.and_then(|holder| self.worker(holder));
            let leaves = holder.is_some_and(|holder| matches!(holder.state, State::Leaving(..)));
            if !leaves || core.next.is_some() {
                return Err(format!("worker {worker} waits for a core that nobody leaves to it"));
            }
            self.cores[usize::from(place)].next = Some(WorkerId(worker));
            self.set_state(WorkerId(worker), State::Coming(place));
        }
        if let Some(app) = self.app_mut(saved.terms.id) {
            app.coming = saved.coming.len() as u16;
        }
        Ok(())
    }

    fn restore_idle(&mut self, order: &[u16]) -> Result<(), String> {
        let mut idle = IdleList::new(self.cores.len());
        for &place in order {
            let core =
                self.cores.get(usize::from(place)).ok_or("a core that is not there idles")?;
            if core.holder.is_some() || idle.contains(usize::from(place)) {
                return Err(format!("core {} is not idle, or idle twice", core.id));
            }
            idle.push(usize::from(place));
        }
        if order.len() != self.cores.iter().filter(|core| core.holder.is_none()).count() {
            return Err("an idle core is not listed".to_owned());
        }
        self.idle = idle;
        Ok(())
    }

    fn restore_bursting(&mut self, order: [Vec<AppId>; 2]) -> Result<(), String> {
        for (list, order) in order.into_iter().enumerate() {
            let (mut one, mut other) = (self.bursting[list].clone(), order.clone());
            one.sort_unstable();
            other.sort_unstable();
            if one != other {
                return Err("the applications with more than their guarantee are others".to_owned());
            }
            for (place, &id) in order.iter().enumerate() {
                if let Some(app) = self.app_mut(id) {
                    app.burst_place = Some(place);
                }
            }
            self.bursting[list].clear();
            self.bursting[list].extend_from_slice(&order);
        }
        Ok(())
    }
}
