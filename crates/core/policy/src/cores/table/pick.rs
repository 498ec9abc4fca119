//! Which worker is woken, and on which core: a warm cache first, then any idle core, then one on
//! which somebody has more than is guaranteed to it.

use base::{AppId, WorkerId};

use super::{App, Table};
use crate::cores::Class;

/// Parked workers of an application that are looked at for a warm core: the latest ones, since the
/// caches of the others are cold by now.
const WARM_LOOK: usize = 8;

impl Table {
    /// The worker to wake next on an idle core: the one that has work, else one that ran on it, if
    /// there is one, else the latest one. It gets its own core if that is idle, else the one that
    /// has been idle for longest.
    pub(in crate::cores) fn pick_idle(&self, app: &App) -> Option<(WorkerId, usize)> {
        let oldest = self.idle.oldest()?;
        let recent = app.parked.iter().rev();
        let latest = *recent.clone().next()?;
        let look = if app.wanted { 1 } else { WARM_LOOK };
        let warm = recent.take(look).find_map(|&worker| {
            let last = usize::from(self.worker(worker)?.last?);
            let own = self.cores[last].last == Some(worker);
            (own && self.idle.contains(last)).then_some((worker, last))
        });
        Some(warm.unwrap_or((latest, oldest)))
    }

    /// A core that is being given up and that nobody waits for.
    pub(in crate::cores) fn pick_leaving(&self, app: &App) -> Option<(WorkerId, usize)> {
        let latest = *app.parked.last()?;
        self.leaving.iter().find_map(|&worker| {
            let place = self.place(worker)?;
            self.cores[place].next.is_none().then_some((latest, place))
        })
    }

    /// A worker to wake and a core to take for it: from a batch job, or, for a guarantee, from any
    /// other application that has more than its own.
    pub(in crate::cores) fn pick_burst(&mut self, id: AppId) -> Option<(WorkerId, usize)> {
        let app = self.app(id)?;
        let latest = *app.parked.last()?;
        let lists = if app.terms.class == Class::Batch {
            0
        } else if app.is_below_guarantee() {
            2
        } else {
            1
        };
        let warm = self.worker(latest)?.last.map(usize::from);
        for list in 0..lists {
            let holder = warm.and_then(|last| self.running(self.cores[last].holder?));
            if let (Some(last), Some(holder)) = (warm, holder)
                && holder.burst_place.is_some()
                && usize::from(holder.terms.class != Class::Batch) == list
            {
                return Some((latest, last));
            }
            // All lose in turn.
            let others = &self.bursting[list];
            let turn = &mut self.turns[list];
            *turn = if *turn < others.len() { *turn } else { 0 };
            let Some(&victim) = others.get(*turn) else { continue };
            *turn += 1;
            // The latest granted: the ones before it have more in their caches.
            let holder = *self.app(victim)?.active.last()?;
            return Some((latest, self.place(holder)?));
        }
        None
    }
}
