//! What the operator and the shell ask for: workers, policy, whole tables.

use std::sync::Arc;

use base::WorkerId;

use super::Control;
use crate::record::What;
use crate::refused::Refused;
use crate::rewrite::Source;
use crate::steer::{Change, Steer};
use crate::table::{Entry, OwnerTable};

impl Control {
    /// The workers that may be given groups from now on, any order.
    pub fn set_workers(&mut self, active: &[WorkerId]) {
        for &worker in active {
            self.note(|| What::Named(worker));
        }
        self.note(|| What::SetWorkers);
        let before = self.workers.active().to_vec();
        self.workers.set_active(active);
        let workers = &self.workers;
        self.gone.retain(|&worker| !workers.is_active(worker));
        self.owned.resize(self.workers.limit().max(self.owned.len()), 0);
        let left = before.iter().any(|&worker| !self.workers.is_active(worker));
        let came = self.workers.active().iter().any(|worker| !before.contains(worker));
        // A policy is adopted by its first workers.
        let change = if before.is_empty() { Change::Adopted } else { Change::Grown };
        let under_way = self.rewrite.is_some() && (left || came);
        if left || under_way || (came && self.steer.wants_rewrite(change)) {
            self.want(Source::Policy);
        }
    }

    /// A worker has ended without handing its groups over: nothing waits for it any more. Call it
    /// before [`Control::set_workers`] without that worker.
    pub fn worker_gone(&mut self, worker: WorkerId) {
        self.note(|| What::WorkerGone(worker));
        if !self.gone.contains(&worker) {
            self.gone.push(worker);
        }
    }

    /// Replaces the policy.
    pub fn set_policy(&mut self, steer: Box<dyn Steer>) {
        self.note(|| steer.save().map_or(What::Unknown, |saved| What::SetPolicy(Box::new(saved))));
        self.leaving_shared = self.shares_queue() && !steer.shares_queue();
        self.steer = steer;
        let under_way = self.rewrite.is_some();
        if self.leaving_shared || under_way || self.steer.wants_rewrite(Change::Adopted) {
            self.want(Source::Policy);
        }
    }

    /// Asks for these owners of the hashed groups. What names a worker that is not active is left
    /// to the policy; [`crate::check_owners`] finds that out before, off the data loop.
    ///
    /// # Errors
    /// Another number of groups.
    pub fn load(&mut self, owners: Vec<Entry>, live: &OwnerTable) -> Result<(), Refused> {
        if owners.len() != live.groups() as usize {
            return Err(Refused::Groups { given: owners.len(), have: live.groups() });
        }
        // Shared, not copied, with a recording: a table may have a million owners.
        let owners = Arc::new(owners);
        self.note(|| What::Load(Arc::clone(&owners)));
        self.want(Source::Loaded(owners));
        Ok(())
    }
}
