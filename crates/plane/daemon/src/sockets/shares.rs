//! What there is only so much of, and how much of it a user may have: so that none takes all.
//!
//! A user has at most a quarter. All users together leave an eighth to root, and of what lies
//! between that and three quarters nobody gets more than a small floor, so that whoever comes last
//! finds something. Root may have all. A user is a person here, subordinate users included
//! ([`crate::payers`]). Whose subordinate it is may change while it has something: that is then
//! still paid for by who was it, until all of it is given back.

use std::collections::BTreeMap;

use crate::payers::payer_of;

/// The user whom all others leave something.
pub(super) const ROOT: u32 = 0;

/// One kind of thing, and who has how many.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    limit: usize,
    of_users: BTreeMap<u32, usize>,
    /// Who pays for a user that has some, as when it took the first; and how many it has itself.
    payers: BTreeMap<u32, (u32, usize)>,
    taken: usize,
}

impl Shares {
    /// `limit` is how many there are.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, of_users: BTreeMap::new(), payers: BTreeMap::new(), taken: 0 }
    }

    /// Whether a user who has `own`, of `taken` that everybody has, may have `more` of `limit`.
    pub(super) fn allows(limit: usize, uid: u32, own: usize, taken: usize, more: usize) -> bool {
        let floor = limit.div_ceil(64);
        let is_common = taken + more <= limit / 4 * 3 || own + more <= floor;
        match uid {
            ROOT => taken + more <= limit,
            _ => {
                own + more <= Self::most(limit, uid)
                    && taken + more <= limit - limit / 8
                    && is_common
            }
        }
    }

    /// The most that a user may have of `limit`.
    pub(super) fn most(limit: usize, uid: u32) -> usize {
        if uid == ROOT { limit } else { limit.div_ceil(4) }
    }

    /// How many there are, and how many of them are taken.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.limit, self.taken)
    }

    /// From now on there are that many. A user with more than that keeps what it has.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether a user may have that many more.
    pub(super) fn has_room(&self, uid: u32, more: usize) -> bool {
        Self::allows(self.limit, uid, self.of(uid), self.taken, more)
    }

    /// Adds to what a user has.
    pub(super) fn take(&mut self, uid: u32, count: usize) {
        if count == 0 {
            return;
        }
        let (payer, own) = self.payers.entry(uid).or_insert_with(|| (payer_of(uid), 0));
        *own += count;
        *self.of_users.entry(*payer).or_default() += count;
        self.taken += count;
    }

    /// Takes off what a user has.
    pub(super) fn give_back(&mut self, uid: u32, count: usize) {
        let Some((payer, own)) = self.payers.get_mut(&uid) else { return };
        let (payer, count) = (*payer, count.min(*own));
        *own -= count;
        if *own == 0 {
            self.payers.remove(&uid);
        }
        self.taken -= count;
        if let Some(all) = self.of_users.get_mut(&payer) {
            *all -= count;
            if *all == 0 {
                self.of_users.remove(&payer);
            }
        }
    }

    /// How many a user has, with all who have the same payer.
    pub(super) fn of(&self, uid: u32) -> usize {
        let payer = self.payers.get(&uid).map_or_else(|| payer_of(uid), |(payer, _)| *payer);
        self.of_users.get(&payer).copied().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payers::{self, Persons};

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
        assert_eq!(users, [200, 200, 200, 13, 13], "whoever comes last has a floor");
        let others: usize = (6..100).map(|uid| most(&mut shares, uid)).sum();
        assert_eq!((others, shares.taken), (74, 700), "an eighth is left");
        assert!(shares.has_room(ROOT, 100) && !shares.has_room(ROOT, 101));
        shares.take(ROOT, 100);
        shares.give_back(2, 150);
        assert_eq!(most(&mut shares, 4), 0, "those of root count, too");
        shares.give_back(1, 1000);
        assert_eq!((shares.of(1), shares.counts()), (0, (800, 450)));
        assert_eq!(most(&mut shares, 4), 150);
    }

    #[test]
    fn subordinate_users_share_what_their_owner_has() {
        let _alone = payers::testing::set("4100000000:4200000000:65536");
        let mut shares = Shares::new(800);
        for uid in (4_200_000_000..4_200_000_200).chain([4_100_000_000]) {
            while shares.has_room(uid, 1) {
                shares.take(uid, 1);
            }
        }
        assert_eq!(shares.counts(), (800, 200), "a quarter, as one user has");
        assert_eq!(shares.of(4_200_000_007), 200);
        // The first of them has taken all.
        shares.give_back(4_200_000_000, 200);
        assert_eq!(shares.counts().1, 0);
    }

    #[test]
    fn what_was_taken_before_a_user_had_a_person_is_given_back_whole_after_it_has_one() {
        let (person, user) = (4_100_000_000, 4_200_000_000);
        let _alone = payers::testing::set("");
        let mut shares = Shares::new(800);
        shares.take(user, 30);
        shares.take(person, 7);
        payers::set(Persons::parse("4100000000:4200000000:65536", |_| None));
        shares.take(user, 5);
        assert_eq!((shares.of(person), shares.of(user)), (7, 35), "it had some already");
        shares.give_back(user, 35);
        assert_eq!((shares.of(person), shares.counts().1), (7, 7));
        shares.take(user, 1);
        assert_eq!(shares.of(person), 8, "what it takes anew is its person's");
        payers::set(Persons::default());
        shares.give_back(user, 1);
        assert_eq!((shares.of(person), shares.counts().1), (7, 7), "the other way, too");
    }

    #[test]
    fn a_single_thing_is_anybodys() {
        assert!(Shares::new(1).has_room(7, 1) && !Shares::new(0).has_room(7, 1));
    }
}
