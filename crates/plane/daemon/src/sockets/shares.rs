//! What there is only so much of, and how much of it a user may have: so that none takes all.
//!
//! A user has at most a quarter, and all users together leave an eighth to root. Root has no share:
//! the kernel says when there is no more.

use std::collections::BTreeMap;

/// The user whom all others leave something.
pub(super) const ROOT: u32 = 0;

/// Descriptors of an application (memory, a doorbell and its copies) and of each of its processes
/// (a connection and a process handle).
pub(super) const APP_DESCRIPTORS: usize = 4;
pub(super) const MEMBER_DESCRIPTORS: usize = 2;

/// One kind of thing, and who has how many.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    limit: usize,
    of_users: BTreeMap<u32, usize>,
    taken: usize,
}

impl Shares {
    /// `limit` is how many there are.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, of_users: BTreeMap::new(), taken: 0 }
    }

    /// Whether a user who has `own`, of `taken` that everybody has, may have `more` of `limit`.
    pub(super) fn allows(limit: usize, uid: u32, own: usize, taken: usize, more: usize) -> bool {
        match uid {
            ROOT => true,
            _ => own + more <= limit.div_ceil(4) && taken + more <= limit - limit / 8,
        }
    }

    /// Whether a user may have that many more.
    pub(super) fn has_room(&self, uid: u32, more: usize) -> bool {
        Self::allows(self.limit, uid, self.of(uid), self.taken, more)
    }

    /// Adds to what a user has.
    pub(super) fn take(&mut self, uid: u32, count: usize) {
        *self.of_users.entry(uid).or_default() += count;
        self.taken += count;
    }

    /// Takes off what a user has.
    pub(super) fn give_back(&mut self, uid: u32, count: usize) {
        let Some(own) = self.of_users.get_mut(&uid) else { return };
        let count = count.min(*own);
        *own -= count;
        self.taken -= count;
        if *own == 0 {
            self.of_users.remove(&uid);
        }
    }

    /// How many a user has.
    pub(super) fn of(&self, uid: u32) -> usize {
        self.of_users.get(&uid).copied().unwrap_or_default()
    }
}

/// Ports that the kernel chooses from.
pub(super) fn automatic_ports() -> usize {
    /// net.ipv4.ip_local_port_range of Linux, if it does not tell.
    const USUAL: usize = 28_232;
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range = text.ok().and_then(|text| {
        let mut words = text.split_whitespace().map(|word| word.parse::<usize>().ok());
        let (first, last) = (words.next()??, words.next()??);
        Some(last.checked_sub(first)? + 1)
    });
    range.unwrap_or(USUAL)
}

/// Descriptors that this process may have for what users ask for.
pub(super) fn descriptors() -> usize {
    /// For what is the daemon's own: ports, rings, threads, operators.
    const OWN: u64 = 256;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Without a limit there is the kernel's (fs.nr_open).
    let limit = limit.unwrap_or(1 << 20).saturating_sub(OWN);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_takes_all_and_all_together_leave_root_something() {
        let mut shares = Shares::new(800);
        let most = |shares: &mut Shares, uid| {
            let mut count = 0;
            while shares.has_room(uid, 1) {
                shares.take(uid, 1);
                count += 1;
            }
            count
        };
        let users: Vec<usize> = (1..6).map(|uid| most(&mut shares, uid)).collect();
        assert_eq!(users, [200, 200, 200, 100, 0], "an eighth is left");
        assert!(shares.has_room(ROOT, 1000));
        shares.take(ROOT, 100);
        shares.give_back(2, 150);
        assert_eq!(most(&mut shares, 4), 50, "those of root count, too");
        shares.give_back(1, 1000);
        assert_eq!((shares.of(1), shares.taken), (0, 500));
    }

    #[test]
    fn a_single_thing_is_anybodys() {
        assert!(Shares::new(1).has_room(7, 1) && !Shares::new(0).has_room(7, 1));
    }
}
