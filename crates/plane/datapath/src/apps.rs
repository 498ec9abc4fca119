//! All steerings of a dispatcher: its own workers' and each attached application's.

use base::{AppId, Nanos};
use shm::FramePool;

use crate::app::{AppDispatch, AttachmentId, DetachReason};
use crate::counters::CounterWriter;
use crate::dispatch_context::DispatchContext;
use crate::steering::Steering;

/// Applications at once, at most.
pub const APPS_MAX: usize = 1024;

/// The dispatcher's own workers.
const OWN: AppId = AttachmentId::OWN.app;

/// Where an application is in the table: the own workers are not in it.
fn position(app: AppId) -> usize {
    app.index() - 1
}

/// The dispatcher's own workers, and its applications.
pub(crate) struct Apps {
    pub(crate) own: Steering,
    /// The own workers are told of ICMP errors about their flows.
    pub(crate) hears_errors: bool,
    /// What the dispatcher counts, its own workers' packets included.
    pub(crate) counters: CounterWriter,
    /// By [`position`].
    attached_apps: Vec<Option<Box<AppDispatch>>>,
    /// The applications that are there: the loops go over these.
    present: Vec<AppId>,
    /// Who is first in the next round.
    first: usize,
    turns: u32,
}

impl Apps {
    pub(crate) fn new(own: Steering) -> Self {
        Self {
            own,
            hears_errors: false,
            counters: CounterWriter::new(),
            attached_apps: Vec::new(),
            present: Vec::new(),
            first: 0,
            turns: 0,
        }
    }

    /// An id for one more application; `None` when there are [`APPS_MAX`].
    pub(crate) fn next_id(&mut self) -> Option<AttachmentId> {
        let free =
            self.attached_apps.iter().position(Option::is_none).unwrap_or(self.attached_apps.len());
        if free == APPS_MAX {
            return None;
        }
        self.turns = self.turns.wrapping_add(1);
        Some(AttachmentId { app: AppId(free as u16 + 1), turn: self.turns })
    }

    pub(crate) fn insert(&mut self, app_dispatch: Box<AppDispatch>) {
        let app = app_dispatch.id.app;
        let position = position(app);
        if position == self.attached_apps.len() {
            self.attached_apps.push(None);
        }
        debug_assert!(self.attached_apps[position].is_none(), "`next_id` gave a free position");
        self.present.push(app);
        self.attached_apps[position] = Some(app_dispatch);
    }

    pub(crate) fn remove(&mut self, app: AttachmentId) -> Option<Box<AppDispatch>> {
        self.app_dispatch(app)?;
        self.present.retain(|&other| other != app.app);
        self.attached_apps[position(app.app)].take()
    }

    pub(crate) fn app_dispatch(&self, app: AttachmentId) -> Option<&AppDispatch> {
        let position = app.app.index().checked_sub(1)?;
        self.attached_apps.get(position)?.as_deref().filter(|app_dispatch| app_dispatch.id == app)
    }

    /// Whether there is no application.
    pub(crate) fn is_alone(&self) -> bool {
        self.present.is_empty()
    }

    /// The applications that are there.
    pub(crate) fn attached_apps(&self) -> impl Iterator<Item = &AppDispatch> {
        self.present.iter().filter_map(|&app| self.attached_apps[position(app)].as_deref())
    }

    /// The first application that must go, and why.
    pub(crate) fn next_fault(&self) -> Option<(AttachmentId, DetachReason)> {
        self.attached_apps()
            .find_map(|app_dispatch| Some((app_dispatch.id, app_dispatch.steering.app()?.fault()?)))
    }

    /// The steering of an application; `None` when it is gone.
    #[inline]
    pub(crate) fn steering(&self, app: AttachmentId) -> Option<&Steering> {
        match app.app {
            OWN => Some(&self.own),
            _ => self.app_dispatch(app).map(|app_dispatch| &app_dispatch.steering),
        }
    }

    /// The steering of an application with the counters that its packets move.
    #[inline]
    pub(crate) fn parts(
        &mut self,
        app: AttachmentId,
    ) -> Option<(&mut Steering, &mut CounterWriter)> {
        match app.app {
            OWN => Some((&mut self.own, &mut self.counters)),
            other => {
                let app_dispatch = self.attached_apps.get_mut(position(other))?.as_mut()?;
                (app_dispatch.id == app)
                    .then_some((&mut app_dispatch.steering, &mut app_dispatch.counters))
            }
        }
    }

    /// Does something with each steering, the own workers' first.
    pub(crate) fn each_steering(&mut self, mut work: impl FnMut(&mut Steering)) {
        work(&mut self.own);
        for &app in &self.present {
            if let Some(app_dispatch) = &mut self.attached_apps[position(app)] {
                work(&mut app_dispatch.steering);
            }
        }
    }

    /// Does something with each, the own workers first.
    #[inline]
    pub(crate) fn each(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        mut work: impl FnMut(&mut Steering, &mut DispatchContext<'_>),
    ) {
        work(&mut self.own, &mut DispatchContext { pool, counters: &mut self.counters, now });
        for &app in &self.present {
            if let Some(app_dispatch) = &mut self.attached_apps[position(app)] {
                let AppDispatch { steering, counters, .. } = &mut **app_dispatch;
                work(steering, &mut DispatchContext { pool, counters, now });
            }
        }
    }

    /// The same in turns: another one is first each time, and `work` says whether to go on.
    #[inline]
    pub(crate) fn each_in_turn(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        mut work: impl FnMut(&mut Steering, &mut DispatchContext<'_>) -> bool,
    ) {
        let all = self.present.len() + 1;
        self.first = (self.first + 1) % all;
        for turn in 0..all {
            let (steering, counters) = match (self.first + turn) % all {
                0 => (&mut self.own, &mut self.counters),
                place => {
                    let index = position(self.present[place - 1]);
                    let Some(app_dispatch) = &mut self.attached_apps[index] else { continue };
                    (&mut app_dispatch.steering, &mut app_dispatch.counters)
                }
            };
            if !work(steering, &mut DispatchContext { pool, counters, now }) {
                return;
            }
        }
    }
}
