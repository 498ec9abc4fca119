//! How many applications a user may have here, and how often it may come: so that none keeps the
//! others out, or the attach server busy.

use std::collections::BTreeMap;

use base::Nanos;
use datapath::RateLimit;

use crate::payers::payer_of;

/// The user whom all others leave something, and who is not counted.
const ROOT: u32 = 0;

/// Handshakes of one user in a second, and at once. To make and remove an application's memory
/// takes a CPU about a millisecond; a build that starts fifty programs at once is let in at once.
const HANDSHAKES_PER_S: u32 = 20;
const HANDSHAKES_AT_ONCE: u32 = 64;

/// The same of all users but root together: a fifth of the attach server's time.
const ALL_HANDSHAKES_PER_S: u32 = 200;

/// Beyond that, of users that have not come for [`LONG`]: one that comes now and then is let in,
/// however many others come all the time.
const FLOOR_PER_S: u32 = 50;
const LONG: Nanos = Nanos::from_secs(5);

/// Users whose budgets are kept, at most; beyond that those are forgotten that have rested for long
/// enough to have all of theirs again.
const USERS_MAX: usize = 1024;

/// Whether a user who has `own` of `taken` places, of which there are `max`, gets one more: no user
/// has more than half, and all together leave an eighth to root.
pub(super) fn has_place(max: usize, uid: u32, own: usize, taken: usize) -> bool {
    match uid {
        ROOT => taken < max,
        _ => own < max.div_ceil(2) && taken < max - max / 8,
    }
}

/// What users have left of their handshakes.
pub(super) struct Handshakes {
    of_users: BTreeMap<u32, Budget>,
    of_all: RateLimit,
    floor: RateLimit,
}

/// What one user has left.
struct Budget {
    limit: RateLimit,
    /// When it was let in last.
    came_at: Nanos,
}

impl Handshakes {
    pub(super) fn new() -> Self {
        let of_all = RateLimit::new(ALL_HANDSHAKES_PER_S, ALL_HANDSHAKES_PER_S);
        let floor = RateLimit::new(FLOOR_PER_S, FLOOR_PER_S);
        Self { of_users: BTreeMap::new(), of_all, floor }
    }

    /// Whether a user may begin with one now.
    pub(super) fn allow(&self, uid: u32, now: Nanos) -> bool {
        let own = self.of_users.get(&payer_of(uid));
        let comes_seldom = own.is_none_or(|own| now.since(own.came_at) >= LONG);
        uid == ROOT
            || ((self.of_all.allows(now) || (comes_seldom && self.floor.allows(now)))
                && own.is_none_or(|own| own.limit.allows(now)))
    }

    /// It wants to; false: it has to wait. A process that joins an application needs no leave:
    /// nothing is made for it.
    pub(super) fn take(&mut self, uid: u32, now: Nanos) -> bool {
        if uid == ROOT {
            return true;
        }
        if !self.allow(uid, now) {
            return false;
        }
        if !self.of_all.take(now) {
            self.floor.take(now);
        }
        if self.of_users.len() >= USERS_MAX {
            self.of_users.retain(|_, own| now.since(own.came_at) < LONG);
        }
        let limit = RateLimit::new(HANDSHAKES_PER_S, HANDSHAKES_AT_ONCE);
        let own = self.of_users.entry(payer_of(uid)).or_insert(Budget { limit, came_at: now });
        own.came_at = now;
        own.limit.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_half_of_the_places_and_all_users_leave_some_to_root() {
        let mut taken = 0;
        let mut most = |uid| {
            let mut own = 0;
            while has_place(64, uid, own, taken) {
                own += 1;
                taken += 1;
            }
            own
        };
        assert_eq!([most(1000), most(1001), most(1002), most(ROOT)], [32, 24, 0, 8]);
        assert!(has_place(1, 1000, 0, 0), "a single place is anybody's");
        assert_eq!((0..64).filter(|own| has_place(64, ROOT, *own, *own)).count(), 64);
    }

    #[test]
    fn who_comes_again_and_again_waits_and_others_do_not() {
        let mut handshakes = Handshakes::new();
        let at = Nanos::from_secs(5);
        let mut came = 0;
        while handshakes.take(1000, at) {
            came += 1;
        }
        assert_eq!(came, HANDSHAKES_AT_ONCE);
        assert!(handshakes.allow(1001, at) && handshakes.allow(ROOT, at));
        assert!(handshakes.allow(1000, at + Nanos::from_millis(51)));
        for uid in 2000..2300 {
            handshakes.take(uid, at);
        }
        assert!(!handshakes.allow(3000, at), "all of them together have a limit, too");
        assert!(!handshakes.allow(2000, at), "and the floor is for users that come seldom");
        assert!(handshakes.allow(ROOT, at) && handshakes.allow(3000, at + Nanos::from_secs(1)));
    }

    #[test]
    fn a_user_that_comes_seldom_is_let_in_however_many_others_come_all_the_time() {
        let mut handshakes = Handshakes::new();
        let mut let_in = 0;
        for step in 0..400 {
            let now = Nanos::from_secs(5) + Nanos::from_millis(25 * step);
            // Thirty users take all that there is.
            for uid in 2000..2030 {
                while handshakes.take(uid, now) {}
            }
            if step % 40 == 39 {
                let_in += u32::from(handshakes.take(3000 + step as u32, now));
            }
        }
        assert_eq!(let_in, 10);
    }

    #[test]
    fn users_who_have_rested_are_forgotten() {
        let mut handshakes = Handshakes::new();
        for uid in 1..=USERS_MAX as u32 + 10 {
            handshakes.take(uid, Nanos::from_secs(10 * u64::from(uid)));
        }
        assert!(handshakes.of_users.len() <= USERS_MAX);
    }
}
