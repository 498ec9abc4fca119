//! The routes themselves, and the steps that bring their changes to the slices' threads.

use std::collections::BTreeMap;

use calisto_nf::{FibChange, NextHop, Prefix, Rib, RibError};

use crate::file::WhenFull;

/// Routes and neighbours as the threads are to have them.
pub(super) struct Table {
    pub(super) rib: Rib,
    /// What to do since the last time, in order, for every thread.
    pub(super) steps: Vec<FibChange>,
    /// Routes that changed.
    pub(super) changes: u64,
    when_full: WhenFull,
    /// Why a route is withheld that was not before.
    refused: Option<RibError>,
}

impl Table {
    pub(super) fn new(when_full: WhenFull) -> Self {
        Self { rib: Rib::new(), steps: Vec::new(), changes: 0, when_full, refused: None }
    }

    /// Takes a route before there are threads. An error ends the chain, by the operator's choice.
    pub(super) fn load(&mut self, prefix: Prefix, to: NextHop) -> Result<(), RibError> {
        let done = self.rib.load(prefix, to);
        self.judge(done)
    }

    /// Takes a change of a route, or its end; an error as for [`Self::load`].
    pub(super) fn change(&mut self, prefix: Prefix, to: Option<NextHop>) -> Result<(), RibError> {
        self.changes += 1;
        let done = match to {
            Some(to) => self.rib.set(prefix, to, &mut self.steps),
            None => {
                self.rib.remove(prefix, &mut self.steps);
                Ok(())
            }
        };
        self.judge(done)
    }

    /// Sets what becomes of the chain when there is no room.
    pub(super) fn set_when_full(&mut self, when_full: WhenFull) {
        self.when_full = when_full;
    }

    /// What to change so that there are these routes and no others: first what goes, which makes
    /// room.
    pub(super) fn difference(
        &self,
        mut routes: BTreeMap<Prefix, NextHop>,
    ) -> Vec<(Prefix, Option<NextHop>)> {
        let mut changes = Vec::new();
        self.rib.each(&mut |prefix, to| match routes.get(&prefix) {
            None => changes.push((prefix, None)),
            Some(wanted) if *wanted == to => drop(routes.remove(&prefix)),
            Some(_) => {}
        });
        changes.extend(routes.into_iter().map(|(prefix, to)| (prefix, Some(to))));
        changes
    }

    /// Why routes are withheld, if one came to them since the last call.
    pub(super) fn take_refused(&mut self) -> Option<RibError> {
        self.refused.take()
    }

    fn judge(&mut self, done: Result<(), RibError>) -> Result<(), RibError> {
        match (done, self.when_full) {
            (Err(error), WhenFull::Stop) => Err(error),
            (Err(error), WhenFull::Drop) => {
                self.refused = Some(error);
                Ok(())
            }
            (Ok(()), _) => Ok(()),
        }
    }
}
