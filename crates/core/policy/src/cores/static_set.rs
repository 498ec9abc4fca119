//! `static_set`: every application has its guaranteed cores and no others (IX, Arrakis).
//!
//! The baseline. A core is given when its application comes; one whose worker parked stays with the
//! application, since nobody else may have it, and is given again as soon as anything waits.

use base::{AppId, WorkerId};

use super::app::AppTerms;
use super::sample::CoresSample;
use super::table::Table;
use super::{Allocate, Asks, Saved, SavedAllocate};

/// Which applications have had all their cores once.
#[derive(Clone, Debug, Default)]
pub(super) struct StaticSet {
    /// Applications that wait for their first cores.
    filling: Vec<AppId>,
    /// Whether those that came before this policy were looked at.
    has_begun: bool,
}

impl StaticSet {
    pub(super) fn restore(filling: Vec<AppId>, has_begun: bool) -> Self {
        Self { filling, has_begun }
    }
}

impl Allocate for StaticSet {
    fn name(&self) -> &'static str {
        "static_set"
    }

    fn observe(&mut self, sample: &CoresSample, table: &Table, asks: &mut Asks) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.filling.clear();
            self.filling.extend(table.apps().map(|app| app.terms.id));
        }
        // What another policy gave beyond the guarantees goes back.
        table.bursting().for_each(|app| asks.fewer(app));
        self.filling.retain(|&app| {
            let misses = table.app(app).is_some_and(|app| app.is_below_guarantee());
            if misses {
                asks.more(app);
            }
            misses
        });
        for busy in &sample.busy {
            if (busy.packets.is_waiting() || busy.tasks.is_waiting())
                && let Some(app) = table.running(busy.id)
            {
                asks.more(app.terms.id);
            }
        }
    }

    fn cores_max(&self, terms: &AppTerms) -> u16 {
        terms.guaranteed
    }

    fn granted(&mut self, _: WorkerId, _: &Table) {}

    fn app_added(&mut self, app: AppId) {
        self.filling.push(app);
    }

    fn app_gone(&mut self, app: AppId) {
        self.filling.retain(|&filling| filling != app);
    }

    fn make_room(&mut self, _: usize, apps: usize) {
        self.filling.reserve(apps);
    }

    fn save(&self) -> SavedAllocate {
        Saved::StaticSet { filling: self.filling.clone(), has_begun: self.has_begun }.into()
    }
}
