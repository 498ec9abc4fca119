//! Sockets that were left to the kernel, and why: the latest, and counts of all.

use std::collections::{BTreeMap, VecDeque};

use attach::FallbackReason;

/// Sockets that are remembered, at most.
const KEPT_MAX: usize = 4096;

/// A socket that was left to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fallback {
    pub(super) app: u16,
    pub(super) app_name: String,
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
        if self.kept.len() == KEPT_MAX {
            let oldest = self.kept.pop_front();
            oldest.into_iter().for_each(|oldest| self.forget(oldest.cookie));
        }
        *self.cookies.entry(new.cookie).or_default() += 1;
        self.kept.push_back(new);
    }

    /// Its last descriptor was closed.
    pub(super) fn end(&mut self, cookie: u64) {
        if self.cookies.remove(&cookie).is_some() {
            self.kept.retain(|fallback| fallback.cookie != cookie);
        }
    }

    fn forget(&mut self, cookie: u64) {
        if let Some(count) = self.cookies.get_mut(&cookie) {
            *count -= 1;
            if *count == 0 {
                self.cookies.remove(&cookie);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fallback(cookie: u64, reason: FallbackReason) -> Fallback {
        Fallback { app: 1, app_name: "a".into(), pid: 9, cookie, inode: 5, reason, count: 1 }
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
            all.add(fallback(cookie, FallbackReason::TcpUlp));
        }
        assert_eq!((all.kept().count(), all.cookies.len()), (KEPT_MAX, KEPT_MAX));
        assert_eq!(all.totals().next(), Some((FallbackReason::TcpUlp, KEPT_MAX as u64 + 10)));
    }
}
