//! `utilisation`: cores in proportion to the work, looked at slowly (TAS).
//!
//! Every 10 ms the idle shares of an application's workers are added up and averaged over some
//! looks. Less than 0.2 of a core idle: one more. More than 1.25: one less, which leaves at least
//! 0.25, so that the one is never followed by the other at the same load. After each change the
//! average begins anew and ten looks pass before the next.

use base::{AppId, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::sample::CoresSample;
use super::table::Table;
use super::{Allocate, Asks, Saved, SavedAllocate};
use crate::number;

/// From look to look.
const LOOK: Nanos = Nanos::from_millis(10);
/// Less than this idle: one core more. In thousandths of a core.
const UP_BELOW: u32 = 200;
/// More than this idle: one core less.
const DOWN_ABOVE: u32 = 1250;
/// Looks without a change after one.
const HOLD: u8 = 10;
/// A look counts for an eighth of the average.
const WEIGHT: u32 = 8;

/// What was seen at the last look.
#[derive(Clone, Debug, Default)]
pub(super) struct Utilisation {
    next_look: Nanos,
    last_look: Nanos,
    /// By worker: its idle time at the last look; `None`: it did not run for the whole time since.
    idle: Vec<Option<Nanos>>,
    /// By application.
    apps: Vec<Average>,
    /// Applications of this look.
    seen: Vec<AppId>,
}

/// One application's idle share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Average {
    /// In thousandths of a core, times [`WEIGHT`]; `None` before the first whole look.
    sum: Option<u32>,
    /// Looks to pass before the next change.
    hold: u8,
    /// Of the look under way: thousandths of a core, and whether all workers ran all the time.
    #[serde(skip)]
    now: u32,
    #[serde(skip)]
    is_partial: bool,
    #[serde(skip)]
    is_seen: bool,
}

impl Average {
    /// The number of cores has changed: what was seen with the other number says nothing.
    const CHANGED: Self = Self { sum: None, hold: HOLD, now: 0, is_partial: false, is_seen: false };
}

/// All that it remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figures {
    next_look: u64,
    last_look: u64,
    idle: Vec<(u16, u64)>,
    #[serde(with = "number::by_app")]
    apps: Vec<(AppId, Average)>,
}

impl Figures {
    pub(super) fn workers(&self) -> impl Iterator<Item = u16> {
        self.idle.iter().map(|&(worker, _)| worker)
    }
}

impl Utilisation {
    pub(super) fn restore(figures: &Figures) -> Self {
        let (next_look, last_look) = (Nanos(figures.next_look), Nanos(figures.last_look));
        let mut policy = Self { next_look, last_look, ..Self::default() };
        for &(worker, idle) in &figures.idle {
            policy.make_room(usize::from(worker) + 1, 0);
            policy.idle[usize::from(worker)] = Some(Nanos(idle));
        }
        for &(app, average) in &figures.apps {
            policy.make_room(0, app.index() + 1);
            policy.apps[app.index()] = average;
        }
        policy
    }

    fn look(&mut self, sample: &CoresSample, table: &Table) {
        let span = sample.now.since(self.last_look).0.max(1);
        for busy in &sample.busy {
            let Some(app) = table.running(busy.id) else { continue };
            let id = app.terms.id;
            let Some(before) = self.idle.get_mut(busy.id.index()) else { continue };
            let Some(average) = self.apps.get_mut(id.index()) else { continue };
            if !std::mem::replace(&mut average.is_seen, true) {
                self.seen.push(id);
                (average.now, average.is_partial) = (0, false);
            }
            match before.replace(busy.idle) {
                // A worker that counts more than the time that has passed was idle all the time.
                Some(before) => {
                    let idle = busy.idle.since(before).0.min(span);
                    average.now += (u128::from(idle) * 1000 / u128::from(span)) as u32;
                }
                None => average.is_partial = true,
            }
        }
    }
}

impl Allocate for Utilisation {
    fn name(&self) -> &'static str {
        "utilisation"
    }

    fn observe(&mut self, sample: &CoresSample, table: &Table, asks: &mut Asks) {
        // While nobody runs there is nothing to look at, so a tick without workers changes nothing.
        if sample.now < self.next_look || sample.busy.is_empty() {
            return;
        }
        self.look(sample, table);
        self.last_look = sample.now;
        self.next_look = sample.now + LOOK;
        for app in self.seen.drain(..) {
            let average = &mut self.apps[app.index()];
            average.is_seen = false;
            if average.is_partial {
                continue;
            }
            let before = average.sum.unwrap_or(average.now * WEIGHT);
            let sum = before - before / WEIGHT + average.now;
            average.sum = Some(sum);
            if average.hold > 0 {
                average.hold -= 1;
            } else if sum < UP_BELOW * WEIGHT {
                asks.more(app);
            } else if sum > DOWN_ABOVE * WEIGHT {
                asks.fewer(app);
                *average = Average::CHANGED;
            }
        }
    }

    fn granted(&mut self, worker: WorkerId, table: &Table) {
        if let Some(idle) = self.idle.get_mut(worker.index()) {
            *idle = None;
        }
        let app = table.running(worker).map(|app| app.terms.id);
        if let Some(average) = app.and_then(|app| self.apps.get_mut(app.index())) {
            *average = Average::CHANGED;
        }
    }

    fn app_gone(&mut self, app: AppId) {
        if let Some(average) = self.apps.get_mut(app.index()) {
            *average = Average::default();
        }
    }

    fn make_room(&mut self, workers: usize, apps: usize) {
        self.idle.resize(self.idle.len().max(workers), None);
        self.apps.resize(self.apps.len().max(apps), Average::default());
        self.seen.reserve(apps);
    }

    fn save(&self) -> SavedAllocate {
        let idle = self.idle.iter().enumerate();
        let known = idle.filter_map(|(id, idle)| idle.map(|idle| (id as u16, idle.0)));
        let apps = self.apps.iter().enumerate().filter(|(_, app)| **app != Average::default());
        let figures = Figures {
            next_look: self.next_look.0,
            last_look: self.last_look.0,
            idle: known.collect(),
            apps: apps.map(|(id, app)| (AppId(id as u16), *app)).collect(),
        };
        Saved::Utilisation(figures).into()
    }
}
