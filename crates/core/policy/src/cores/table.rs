//! Which worker holds which core, which is on the way to one, and which applications have more than
//! their guarantee.
//!
//! Every step costs the same for two cores and for 256. What must hold: a core has one holder, a
//! worker holds one core, and an application never has more cores, those on their way included,
//! than its terms allow.

mod pick;
mod saved;
mod steps;

use base::{AppId, Nanos, WorkerId};

use super::app::{AppTerms, Class, CoresRefused};
use super::idle::IdleList;
use super::{APP_LIMIT, CoreId};

pub(super) use saved::SavedTable;
pub(super) use steps::Freed;

/// The cores, the applications and their workers, as a policy sees them.
#[derive(Clone, Debug)]
pub struct Table {
    pub(super) cores: Vec<Core>,
    idle: IdleList,
    /// By id.
    apps: Vec<Option<App>>,
    /// By id.
    workers: Vec<Option<Worker>>,
    /// Workers that were told to park, the earliest first.
    pub(super) leaving: Vec<WorkerId>,
    /// Applications with more cores than are guaranteed to them: batch jobs, and the others.
    bursting: [Vec<AppId>; 2],
    /// Whose turn it is in these lists to lose a core.
    turns: [usize; 2],
    guaranteed: usize,
}

/// A core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Which.
    pub id: CoreId,
    /// The worker that has it.
    pub holder: Option<WorkerId>,
    /// The worker that gets it when the holder has parked.
    pub next: Option<WorkerId>,
    /// The worker that had it before.
    pub last: Option<WorkerId>,
    /// Since when it has been with its holder, or idle.
    pub since: Nanos,
}

/// An application.
#[derive(Clone, Debug)]
pub struct App {
    /// What it may have.
    pub terms: AppTerms,
    /// Workers that hold a core and were not told to park.
    pub(super) active: Vec<WorkerId>,
    /// The latest last.
    pub(super) parked: Vec<WorkerId>,
    /// The last of these has work that only it can do.
    pub(super) wanted: bool,
    /// Workers whose core is still somebody else's.
    pub(super) coming: u16,
    /// The tick of its last grant or revocation in its favour.
    pub(super) served_at: u64,
    /// Its place in the list of bursting ones.
    burst_place: Option<usize>,
}

impl App {
    /// Cores that it has, or will have once every command is carried out.
    pub fn cores(&self) -> usize {
        self.active.len() + usize::from(self.coming)
    }

    /// Workers that hold a core and were not told to park.
    pub fn active(&self) -> &[WorkerId] {
        &self.active
    }

    /// Workers without a core.
    pub fn parked(&self) -> &[WorkerId] {
        &self.parked
    }

    /// Whether it has less than is guaranteed to it.
    pub fn is_below_guarantee(&self) -> bool {
        self.cores() < usize::from(self.terms.guaranteed)
    }
}

#[derive(Clone, Copy, Debug)]
struct Worker {
    app: AppId,
    /// The place of the core that it ran on last.
    last: Option<u16>,
    state: State,
    /// It has no core, and its flows are others'.
    rests: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Parked,
    /// On the way to a core that is still held.
    Coming(u16),
    Active(u16),
    /// Told to park; the core is taken at the deadline.
    Leaving(u16, Nanos),
}

impl Table {
    pub(super) fn new(cores: &[CoreId]) -> Result<Self, CoresRefused> {
        let mut sorted = cores.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != cores.len() || cores.is_empty() || cores.len() > CoreId::COUNT_MAX {
            return Err(CoresRefused::CoreSet(cores.len()));
        }
        let mut idle = IdleList::new(cores.len());
        (0..cores.len()).for_each(|place| idle.push(place));
        let core = |&id| Core { id, holder: None, next: None, last: None, since: Nanos::ZERO };
        Ok(Self {
            cores: cores.iter().map(core).collect(),
            idle,
            apps: Vec::new(),
            workers: Vec::new(),
            leaving: Vec::with_capacity(cores.len()),
            bursting: Default::default(),
            turns: [0; 2],
            guaranteed: 0,
        })
    }

    /// All cores, in the order in which they were named.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The application, if there is one.
    #[inline]
    pub fn app(&self, id: AppId) -> Option<&App> {
        self.apps.get(id.index())?.as_ref()
    }

    /// All applications.
    pub fn apps(&self) -> impl Iterator<Item = &App> {
        self.apps.iter().flatten()
    }

    /// Applications with more cores than are guaranteed to them.
    pub fn bursting(&self) -> impl Iterator<Item = AppId> {
        self.bursting.iter().flatten().copied()
    }

    /// The application of a worker that holds a core and was not told to park.
    #[inline]
    pub fn running(&self, worker: WorkerId) -> Option<&App> {
        let worker = self.workers.get(worker.index())?.as_ref()?;
        if !matches!(worker.state, State::Active(_)) {
            return None;
        }
        self.app(worker.app)
    }

    /// Whether the worker has no core and its flows are others'.
    #[inline]
    pub fn rests(&self, worker: WorkerId) -> bool {
        self.worker(worker).is_some_and(|worker| worker.rests)
    }

    pub(super) fn app_mut(&mut self, id: AppId) -> Option<&mut App> {
        self.apps.get_mut(id.index())?.as_mut()
    }

    /// Ids of workers are smaller than this, and ids of applications than that.
    pub(super) fn limits(&self) -> (usize, usize) {
        (self.workers.len(), self.apps.len())
    }

    pub(super) fn add_app(
        &mut self,
        terms: AppTerms,
        workers: &[WorkerId],
    ) -> Result<(), CoresRefused> {
        let AppTerms { id, guaranteed, burst, class, .. } = terms;
        let left = self.cores.len() - self.guaranteed;
        if id.0 >= APP_LIMIT {
            return Err(CoresRefused::AppId(id));
        } else if self.app(id).is_some() {
            return Err(CoresRefused::AppTaken(id));
        } else if guaranteed > burst {
            return Err(CoresRefused::Burst(id));
        } else if class == Class::Batch && guaranteed > 0 {
            return Err(CoresRefused::BatchGuarantee(id));
        } else if usize::from(guaranteed) > left {
            return Err(CoresRefused::Guarantees { wanted: guaranteed, left });
        } else if usize::from(guaranteed) > workers.len() {
            return Err(CoresRefused::FewWorkers { app: id, workers: workers.len(), guaranteed });
        }
        for (at, &worker) in workers.iter().enumerate() {
            let taken = self.workers.get(worker.index()).is_some_and(Option::is_some);
            if worker.0 >= WorkerId::LIMIT || taken || workers[..at].contains(&worker) {
                return Err(CoresRefused::Worker(worker));
            }
        }
        for &worker in workers {
            self.workers.resize(self.workers.len().max(worker.index() + 1), None);
            let state = State::Parked;
            self.workers[worker.index()] =
                Some(Worker { app: id, last: None, state, rests: false });
        }
        self.apps.resize_with(self.apps.len().max(id.index() + 1), || None);
        self.apps[id.index()] = Some(App {
            terms,
            active: Vec::with_capacity(workers.len()),
            // The first named is the first to run.
            parked: workers.iter().rev().copied().collect(),
            wanted: false,
            coming: 0,
            served_at: 0,
            burst_place: None,
        });
        self.guaranteed += usize::from(guaranteed);
        for list in &mut self.bursting {
            list.reserve(self.apps.len() - list.len());
        }
        Ok(())
    }

    /// The application without workers is no more.
    pub(super) fn drop_app(&mut self, id: AppId) {
        if let Some(app) = self.apps.get_mut(id.index()).and_then(Option::take) {
            debug_assert!(app.active.is_empty() && app.coming == 0, "its workers go first");
            self.guaranteed -= usize::from(app.terms.guaranteed);
        }
    }

    /// Every worker of the application, whatever it does.
    pub(super) fn workers_of(&self, id: AppId) -> Vec<WorkerId> {
        let ids = (0..self.workers.len() as u16).map(WorkerId);
        ids.filter(|worker| self.worker(*worker).is_some_and(|worker| worker.app == id)).collect()
    }

    /// The core that the worker holds.
    pub(super) fn place(&self, worker: WorkerId) -> Option<usize> {
        match self.worker(worker)?.state {
            State::Active(place) | State::Leaving(place, _) => Some(usize::from(place)),
            State::Parked | State::Coming(_) => None,
        }
    }

    pub(super) fn app_of(&self, worker: WorkerId) -> Option<AppId> {
        self.worker(worker).map(|worker| worker.app)
    }

    #[inline]
    fn worker(&self, worker: WorkerId) -> Option<&Worker> {
        self.workers.get(worker.index())?.as_ref()
    }

    fn set_state(&mut self, worker: WorkerId, state: State) -> Option<AppId> {
        let worker = self.workers.get_mut(worker.index())?.as_mut()?;
        worker.state = state;
        Some(worker.app)
    }
}
