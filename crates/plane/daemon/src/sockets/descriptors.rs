//! The daemon's descriptors: how many it may have for programs, and for whom it has them.
//!
//! There are as many as the process may have (RLIMIT_NOFILE, which the daemon raises to the most
//! that it may be) or the configuration says, without those that are the daemon's own. Each user
//! has a share, root has a reserve ([`Shares`]), and a program has at most three quarters of what
//! its user may have, so that the user's others find some.
//!
//! What is done when they run out, in this order:
//! 1. the ports of connections that are over (TIME-WAIT) are given up early, first those of the
//!    user who asks, then those of the user who has most of them;
//! 2. what is asked for is refused: a connection is the kernel's, a program is told why it is not
//!    served.

use std::collections::BTreeMap;

use base::AppId;

use super::shares::Shares;

/// Descriptors of an application (memory, a doorbell and its copies) and of each of its processes
/// (a connection and a process handle).
pub(super) const APP_DESCRIPTORS: usize = 4;
pub(super) const MEMBER_DESCRIPTORS: usize = 2;

/// Descriptors beyond those that are open when the daemon begins to serve programs: connections
/// that have not said yet what they want, what they pass and is being closed, operators, workers
/// that come later.
const OWN: usize = 256;

/// For whom the daemon has a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payer {
    pub(super) uid: u32,
    /// The application's number.
    pub(super) app: AppId,
}

/// All that the daemon has for programs.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// As many as the process may have, without the daemon's own.
    there: usize,
    users: Shares,
    of_apps: BTreeMap<AppId, usize>,
}

impl Descriptors {
    /// `most` of them; zero: as many as the process may have.
    pub(super) fn new(most: u32) -> Self {
        let there = available();
        Self { there, ..Self::of(limit(there, most)) }
    }

    /// Exactly `limit`.
    pub(super) fn of(limit: usize) -> Self {
        Self { there: limit, users: Shares::new(limit), of_apps: BTreeMap::new() }
    }

    /// From now on there are `most`; zero: as many as the process may have.
    pub(super) fn set_limit(&mut self, most: u32) {
        self.users.set_limit(limit(self.there, most));
    }

    /// Whether `more` descriptors more may be had for an application.
    pub(super) fn has_room(&self, payer: Payer, more: usize) -> bool {
        let most = Shares::most(self.users.counts().0, payer.uid);
        let own = self.of_apps.get(&payer.app).copied().unwrap_or_default();
        self.users.has_room(payer.uid, more) && own + more <= (most - most / 4).max(1)
    }

    /// Whether an application of that user, which has none yet, may have `count`.
    pub(super) fn has_room_for_new(&self, uid: u32, count: usize) -> bool {
        self.users.has_room(uid, count)
    }

    pub(super) fn take(&mut self, payer: Payer, count: usize) {
        self.users.take(payer.uid, count);
        *self.of_apps.entry(payer.app).or_default() += count;
    }

    pub(super) fn give_back(&mut self, payer: Payer, count: usize) {
        self.users.give_back(payer.uid, count);
        if let Some(own) = self.of_apps.get_mut(&payer.app) {
            *own = own.saturating_sub(count);
            if *own == 0 {
                self.of_apps.remove(&payer.app);
            }
        }
    }

    /// How many there are, and how many of them are taken.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.users.counts()
    }

    #[cfg(test)]
    pub(super) fn of_user(&self, uid: u32) -> usize {
        self.users.of(uid)
    }
}

/// What the configuration leaves of what is there.
fn limit(there: usize, most: u32) -> usize {
    if most == 0 { there } else { there.min(most as usize) }
}

/// Descriptors that this process may still have for what users ask for.
fn available() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Without a limit there is the kernel's (fs.nr_open).
    let limit = usize::try_from(limit.unwrap_or(1 << 20)).unwrap_or(usize::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    limit.saturating_sub(open + OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(descriptors: &mut Descriptors, payer: Payer) -> usize {
        let mut count = 0;
        while descriptors.has_room(payer, 1) {
            descriptors.take(payer, 1);
            count += 1;
        }
        count
    }

    #[test]
    fn a_program_leaves_a_quarter_to_the_others_of_its_user_and_root_a_part_to_nobody() {
        let mut all = Descriptors::of(800);
        let payer = |uid, app| Payer { uid, app: AppId(app) };
        assert_eq!([1, 2, 3].map(|app| most(&mut all, payer(7, app))), [150, 50, 0]);
        assert_eq!(most(&mut all, payer(0, 4)), 600, "a program of root has a limit too");
        assert!(all.has_room_for_new(0, 0) && !all.has_room_for_new(0, 1));
        assert_eq!(all.counts(), (800, 800));
        all.give_back(payer(0, 4), 600);
        all.give_back(payer(7, 1), 150);
        assert_eq!((all.of_user(7), all.counts().1), (50, 50));
        assert_eq!(most(&mut all, payer(7, 2)), 100, "it has 50 of 150 already");
    }

    #[test]
    fn what_the_process_may_have_is_never_exceeded_by_the_configuration() {
        let there = Descriptors::new(0).counts().0;
        assert!(there > 0 && Descriptors::new(u32::MAX).counts().0 <= there);
        assert_eq!(Descriptors::new(1).counts(), (1, 0));
    }
}
