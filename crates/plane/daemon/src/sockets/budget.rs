//! Time that each user's programs may cost all others: a user with many applications has no more of
//! it than one with few.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What each user has left.
#[derive(Debug)]
pub(crate) struct Budget {
    each: Duration,
    spent: BTreeMap<u32, Duration>,
}

impl Budget {
    /// One of which nothing is spent, with so much for each user.
    pub(crate) const fn new(each: Duration) -> Self {
        Self { each, spent: BTreeMap::new() }
    }

    /// What `user` has left.
    pub(crate) fn left(&self, user: u32) -> Duration {
        self.each.saturating_sub(self.spent.get(&user).copied().unwrap_or_default())
    }

    /// Until when `user` may have what goes on until `all`: while others wait for no longer than it
    /// has left, else for all of it, because that keeps nobody.
    pub(crate) fn until(
        &self,
        user: u32,
        now: Instant,
        all: Instant,
        do_others_wait: bool,
    ) -> Instant {
        if do_others_wait { all.min(now + self.left(user)) } else { all }
    }

    /// So much was spent on `user`.
    pub(crate) fn spend(&mut self, user: u32, time: Duration) {
        *self.spent.entry(user).or_default() += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_applications_of_one_user_have_no_more_than_one_and_take_nothing_from_another() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(second);
        // Each takes all that it may.
        let taken: Duration = (0..5)
            .map(|_| {
                let left = budget.left(7);
                budget.spend(7, left);
                left
            })
            .sum();
        assert_eq!((taken, budget.left(7), budget.left(8)), (second, Duration::ZERO, second));
        // Alone with the time it has all of that, whatever it had before.
        let now = Instant::now();
        let all = now + second * 5;
        assert_eq!(budget.until(7, now, all, true), now);
        assert_eq!(budget.until(8, now, all, true), now + second);
        assert_eq!(budget.until(8, now, now + second / 2, true), now + second / 2);
        assert_eq!(budget.until(7, now, all, false), all);
        budget.spend(8, second * 3);
        assert_eq!(budget.left(8), Duration::ZERO, "who was late owes nothing");
    }
}
