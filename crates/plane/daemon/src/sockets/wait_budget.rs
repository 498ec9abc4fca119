//! How long the calls of one user may keep all others who call the attach server waiting.
//!
//! Some answers are only right once workers have ended something, so the attach server waits for
//! them, and whoever asks meanwhile waits, too. A user has a budget of that time. Once it is used
//! up, what is asked for is refused at once, which leaves a socket to the kernel. All users
//! together have one as well, but for root: nobody becomes many by having many numbers.

use std::collections::BTreeMap;

use base::Nanos;

use super::shares::ROOT;
use crate::payers::payer_of;

/// Time that the calls of one user may wait in each [`WINDOW`]: hundreds of sockets that are closed
/// and bound again, of which each waits a fraction of a millisecond; a tenth of the attach server.
const WAITED_MAX: Nanos = Nanos::from_millis(100);

/// … of all users but root together.
const ALL_WAITED_MAX: Nanos = Nanos::from_millis(300);

const WINDOW: Nanos = Nanos::from_secs(1);

/// What users have waited since a moment.
#[derive(Debug, Default)]
pub(super) struct WaitBudget {
    since: Nanos,
    /// Users whose calls have waited in this window: no more than have programs here.
    waited: BTreeMap<u32, Nanos>,
    /// What they have waited together, without root.
    all: Nanos,
    has_waited: bool,
}

impl WaitBudget {
    /// How long a call of a user may wait that begins now.
    pub(super) fn left(&mut self, uid: u32, now: Nanos) -> Nanos {
        if now.since(self.since) >= WINDOW {
            self.since = now;
            self.waited.clear();
            self.all = Nanos::ZERO;
        }
        if uid == ROOT {
            return WAITED_MAX;
        }
        let waited = self.waited.get(&payer_of(uid)).copied().unwrap_or(Nanos::ZERO);
        WAITED_MAX.since(waited).min(ALL_WAITED_MAX.since(self.all))
    }

    /// A call of a user has waited so long.
    pub(super) fn note(&mut self, uid: u32, waited: Nanos) {
        let all = self.waited.entry(payer_of(uid)).or_insert(Nanos::ZERO);
        *all += waited;
        if uid != ROOT {
            self.all += waited;
        }
        self.has_waited = true;
    }

    /// Whether any call has waited since this was asked last.
    pub(super) fn has_waited(&mut self) -> bool {
        std::mem::take(&mut self.has_waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_waits_for_a_tenth_of_the_time_and_others_for_their_own() {
        let mut wait_budget = WaitBudget::default();
        let now = Nanos::from_secs(7);
        assert_eq!(wait_budget.left(1, now), WAITED_MAX);
        assert!(!wait_budget.has_waited());
        wait_budget.note(1, Nanos::from_millis(60));
        assert!(wait_budget.has_waited() && !wait_budget.has_waited());
        assert_eq!(wait_budget.left(1, now + Nanos::from_millis(60)), Nanos::from_millis(40));
        wait_budget.note(1, Nanos::from_millis(60));
        let later = now + Nanos::from_millis(900);
        assert_eq!(wait_budget.left(1, later), Nanos::ZERO);
        assert_eq!(wait_budget.left(2, later), WAITED_MAX);
        assert_eq!(wait_budget.left(1, now + WINDOW), WAITED_MAX);
    }

    #[test]
    fn users_together_keep_the_attach_server_waiting_for_less_than_a_third_of_the_time() {
        let mut wait_budget = WaitBudget::default();
        let now = Nanos::from_secs(7);
        let mut all = Nanos::ZERO;
        for uid in 1..100 {
            let left = wait_budget.left(uid, now);
            wait_budget.note(uid, left);
            all += left;
        }
        assert_eq!(all, ALL_WAITED_MAX);
        assert!(ALL_WAITED_MAX < Nanos(WINDOW.0 / 3));
        assert_eq!(wait_budget.left(ROOT, now), WAITED_MAX, "it may stop the daemon anyway");
        wait_budget.note(ROOT, WINDOW);
        assert_eq!(wait_budget.left(1, now + WINDOW), WAITED_MAX);
    }
}
