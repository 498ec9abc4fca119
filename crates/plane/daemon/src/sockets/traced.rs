//! Whose requests an operator traces.

use std::sync::atomic::Ordering;

use stack::TraceLosses;

use super::app::App;
use crate::admin_clients::ClientId;

/// What is traced.
pub(super) struct Traced {
    /// For whom.
    pub(super) client: ClientId,
    /// Its name or number; none: everybody.
    pub(super) app: Option<String>,
    pub(super) one_in: u32,
    /// What was lost before.
    pub(super) before: TraceLosses,
}

impl Traced {
    /// Whether an application is meant.
    pub(super) fn means(&self, app: &App) -> bool {
        self.app.as_deref().is_none_or(|text| app.answers_to(text))
    }
}

/// Has an application sampled as is wanted.
pub(super) fn apply(traced: Option<&Traced>, app: &App) {
    let wanted = traced.filter(|traced| traced.means(app)).map_or(0, |traced| traced.one_in);
    app.streams.trace_one_in.store(wanted, Ordering::Relaxed);
}
