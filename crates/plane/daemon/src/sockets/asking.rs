//! The way to the threads beside for the calls of one user: the attach server waits for them for so
//! long and no longer.

use std::time::Duration;

use base::Nanos;
use sys::{SysError, clock};

use super::aside::Aside;
use super::closer::Closer;
use super::wait_budget::WaitBudget;
use crate::attach_server_counters::{AttachServerCounters, AttachServerEvent};

/// A thread that is kept is waited for this long, as far as its user has budget left. It takes some
/// microseconds unless its program keeps it.
const ASKED_WITHIN: Nanos = Nanos::from_millis(20);

/// After a call for which the attach server has waited so long, others are heard first, whosever
/// doing it was.
const LONG: Nanos = Nanos::from_millis(1);

/// The threads that do for the socket table what may wait for a program.
pub(super) struct AsideThreads {
    pub(super) aside: Aside,
    pub(super) closer: Closer,
}

impl AsideThreads {
    /// Starts the first ones.
    pub(super) fn start() -> Result<Self, SysError> {
        Ok(Self { aside: Aside::start()?, closer: Closer::start()? })
    }
}

/// The way to the threads.
pub(super) struct Asking<'a> {
    pub(super) aside: &'a Aside,
    pub(super) wait_budget: &'a mut WaitBudget,
    pub(super) counters: &'a AttachServerCounters,
    pub(super) user: u32,
}

impl Asking<'_> {
    /// Has a thread do it: see [`Aside::ask`]. None: it was late, or its user has no more time.
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let begun = clock::now();
        let most = self.wait_budget.left(self.user, begun).min(ASKED_WITHIN);
        let (done, kept) = match most {
            Nanos::ZERO => (None, Duration::ZERO),
            most => self.aside.ask(self.user, Duration::from_nanos(most.0), work),
        };
        if !kept.is_zero() || clock::now().since(begun) >= LONG {
            self.wait_budget.note(self.user, Nanos(kept.as_nanos() as u64));
        }
        if done.is_none() {
            self.counters.count(AttachServerEvent::DescriptorsSilent);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_whose_closing_takes_a_processor_long_costs_its_users_budget_and_others_are_next()
     {
        struct Big;
        impl Drop for Big {
            fn drop(&mut self) {
                let had = clock::of_thread();
                while clock::of_thread().since(had) < Nanos::from_millis(200) {
                    std::hint::spin_loop();
                }
            }
        }
        let aside = Aside::start().expect("threads are left");
        let (mut budget, counters) = (WaitBudget::default(), AttachServerCounters::default());
        let mut asking =
            Asking { aside: &aside, wait_budget: &mut budget, counters: &counters, user: 7 };
        let whole = asking.wait_budget.left(7, clock::now());
        assert!(asking.ask(|| ()).is_some());
        // All of it in one window.
        let begun = clock::now();
        assert!(asking.ask(move || drop(Big)).is_none(), "nobody waits for all of it");
        assert!(budget.has_waited(), "the next call is another process's");
        let left = budget.left(7, begun);
        assert!(left <= whole.since(ASKED_WITHIN), "{left:?} of {whole:?}");
        assert_eq!(budget.left(8, begun), whole);
    }
}
