//! Sockets that were left to the kernel, and why: the latest, and counts of all.

use std::collections::{BTreeMap, VecDeque};

use attach::FallbackReason;
use base::AppId;

/// Sockets that are remembered, at most; and of one user, so that none crowds out the others.
const KEPT_MAX: usize = 4096;
const KEPT_OF_USER_MAX: usize = 1024;

/// A socket that was left to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fallback {
    pub(super) app: AppId,
    pub(super) app_name: String,
    pub(super) uid: u32,
    pub(super) pid: u32,
    pub(super) cookie: u64,
    pub(super) inode: u64,
    pub(super) reason: FallbackReason,
    /// Times that it was, for this reason.
    pub(super) count: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Fallbacks {
    /// Latest last.
    kept: VecDeque<Fallback>,
    /// How many of them each cookie has: nearly every socket that ends has none.
    cookies: BTreeMap<u64, usize>,
    /// How many of them each user has.
    of_users: BTreeMap<u32, usize>,
    totals: BTreeMap<FallbackReason, u64>,
}

impl Fallbacks {
    /// One more.
    pub(super) fn add(&mut self, new: Fallback) {
        *self.totals.entry(new.reason).or_default() += 1;
        let is_same = |old: &&mut Fallback| {
            (old.app, old.cookie, old.reason) == (new.app, new.cookie, new.reason)
        };
        // A program that tries one socket again and again does so with its latest.
        if let Some(old) = self.kept.iter_mut().rev().take(64).find(is_same) {
            old.count += 1;
            return;
        }
        let of_user = self.of_users.get(&new.uid).copied().unwrap_or_default();
        if of_user >= KEPT_OF_USER_MAX {
            self.forget_oldest_of(new.uid);
        } else if self.kept.len() >= KEPT_MAX
            && let Some((&most, _)) = self.of_users.iter().max_by_key(|(_, count)| **count)
        {
            self.forget_oldest_of(most);
        }
        *self.cookies.entry(new.cookie).or_default() += 1;
        *self.of_users.entry(new.uid).or_default() += 1;
        self.kept.push_back(new);
    }

    /// Its last descriptor was closed.
    pub(super) fn end(&mut self, cookie: u64) {
        if self.cookies.remove(&cookie).is_some() {
            let ended = self.kept.iter().filter(|fallback| fallback.cookie == cookie);
            ended.for_each(|ended| count_down(&mut self.of_users, ended.uid));
            self.kept.retain(|fallback| fallback.cookie != cookie);
        }
    }

    fn forget_oldest_of(&mut self, uid: u32) {
        let oldest = self.kept.iter().position(|fallback| fallback.uid == uid);
        if let Some(oldest) = oldest.and_then(|at| self.kept.remove(at)) {
            count_down(&mut self.cookies, oldest.cookie);
            count_down(&mut self.of_users, uid);
        }
    }

    /// Those that are remembered.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Fallback> {
        self.kept.iter()
    }

    /// How many there were by reason, ever.
    pub(super) fn totals(&self) -> impl Iterator<Item = (FallbackReason, u64)> {
        self.totals.iter().map(|(reason, count)| (*reason, *count))
    }
}

fn count_down<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fallback(cookie: u64, reason: FallbackReason) -> Fallback {
        let (app_name, uid) = ("a".into(), 1000);
        Fallback { app: AppId(1), app_name, uid, pid: 9, cookie, inode: 5, reason, count: 1 }
    }

    #[test]
    fn the_same_socket_is_one_line_and_all_are_counted() {
        let mut all = Fallbacks::default();
        all.add(fallback(7, FallbackReason::Multicast));
        all.add(fallback(7, FallbackReason::Multicast));
        all.add(fallback(7, FallbackReason::Broadcast));
        let counts: Vec<u64> = all.kept().map(|fallback| fallback.count).collect();
        assert_eq!(counts, [2, 1]);
        all.end(7);
        assert_eq!(all.kept().count(), 0);
        let totals: Vec<_> = all.totals().collect();
        assert_eq!(totals, [(FallbackReason::Multicast, 2), (FallbackReason::Broadcast, 1)]);
    }

    #[test]
    fn old_ones_are_forgotten_and_still_counted() {
        let mut all = Fallbacks::default();
        for cookie in 1..=KEPT_MAX as u64 + 10 {
            let one = fallback(cookie, FallbackReason::TcpUlp);
            all.add(Fallback { uid: cookie as u32 % 7, ..one });
        }
        assert_eq!((all.kept().count(), all.cookies.len()), (KEPT_MAX, KEPT_MAX));
        assert_eq!(all.totals().next(), Some((FallbackReason::TcpUlp, KEPT_MAX as u64 + 10)));
    }

    #[test]
    fn a_user_with_many_makes_nobody_elses_be_forgotten() {
        let mut all = Fallbacks::default();
        let own = |uid| move |one: &&Fallback| one.uid == uid;
        let name = |uid: u32, at: u64| (u64::from(uid) << 32) + at;
        let add = |all: &mut Fallbacks, uid: u32, count: u64| {
            for cookie in (1..=count).map(|at| name(uid, at)) {
                all.add(Fallback { uid, ..fallback(cookie, FallbackReason::TcpUlp) });
            }
        };
        add(&mut all, 9, 3);
        for uid in 0..5 {
            add(&mut all, uid, 2 * KEPT_MAX as u64);
        }
        assert_eq!(all.kept().filter(own(9)).count(), 3);
        assert_eq!(all.kept().count(), KEPT_MAX);
        let counts = (0..5).map(|uid| all.kept().filter(own(uid)).count());
        assert!(counts.into_iter().all(|count| count <= KEPT_OF_USER_MAX && count > 500));
        let last = all.kept().filter(own(4)).last().map(|one| one.cookie);
        assert_eq!(last, Some(name(4, 2 * KEPT_MAX as u64)), "the latest are remembered");
        let cookies: Vec<u64> = all.kept().map(|one| one.cookie).collect();
        cookies.into_iter().for_each(|cookie| all.end(cookie));
        assert!(all.of_users.is_empty() && all.cookies.is_empty());
    }
}
