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

    /// Until when `user` may have what goes on until `all`, while `users` wait, itself
    /// included. Alone it may have all of it, because that keeps nobody; else no more than it has
    /// left, nor than its part of what all have: many users, who may be one person's, leave whoever
    /// comes last as much.
    pub(crate) fn until(&self, user: u32, now: Instant, all: Instant, users: usize) -> Instant {
        let parts = u32::try_from(users).unwrap_or(u32::MAX).max(1);
        let part = all.saturating_duration_since(now) / parts;
        if users > 1 { now + part.min(self.left(user)) } else { all }
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
        assert_eq!(budget.until(7, now, all, 2), now);
        assert_eq!(budget.until(8, now, all, 2), now + second);
        assert_eq!(budget.until(8, now, now + second / 2, 2), now + second / 4);
        assert_eq!(budget.until(7, now, all, 1), all);
        budget.spend(8, second * 3);
        assert_eq!(budget.left(8), Duration::ZERO, "who was late owes nothing");
    }

    #[test]
    fn many_users_before_another_leave_it_a_part_of_the_time() {
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(second);
        let begun = Instant::now();
        let (all, users) = (begun + second * 5, 60);
        let mut now = begun;
        for user in 1..users {
            // Each takes all that it may.
            let until = budget.until(user, now, all, (users - user + 1) as usize);
            budget.spend(user, until - now);
            now = until;
        }
        assert!(all - now >= second * 5 / users - Duration::from_millis(1), "{:?}", all - now);
    }
}
