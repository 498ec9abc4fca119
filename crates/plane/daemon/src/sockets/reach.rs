//! How often the kernel is asked whether the link address of a next hop is known by now.
//!
//! Every connection and every destination of datagrams waits for that on its own, and an address
//! that does not answer is waited for to the end. So the time between two looks grows with the
//! wait, and a user's looks have a share: whoever connects to many dead addresses waits longer, and
//! nobody else does. Connections, datagrams and answers have shares of their own: whom a service
//! answers is a stranger's choice, who sends to it from invented addresses, and what its user's
//! programs begin with themselves does not wait for that.

use std::collections::BTreeMap;

use base::Nanos;

/// A next hop may take this long to say its link address.
pub(super) const REACH_MAX: Nanos = Nanos::from_secs(3);

/// Time between the first two looks whether it has.
const LOOK_EVERY: Nanos = Nanos::from_millis(20);

/// The time between two looks is this part of what has been waited already.
const PART_OF_WAIT: u64 = 4;

/// Looks of one user for one [`Cause`] in each [`LOOK_EVERY`], for routes and for link addresses
/// that were not known lately. A look is up to three messages to the kernel, some twenty
/// microseconds: one user keeps the attach server for less than four milliseconds of twenty.
const LOOKS_MAX: u32 = 64;

/// For what a link address is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// A program connects.
    Connect,
    /// A program sends datagrams to where nothing has come from.
    Send,
    /// It sends to where something has come from, perhaps in answer to a stranger.
    Answer,
}

/// When to look next for what has been waited for until `now`, and is to be given up at `until`.
pub(super) fn next_look(now: Nanos, until: Nanos) -> Nanos {
    let left = until.since(now);
    let waited = REACH_MAX.since(left);
    let pause = Nanos(waited.0 / PART_OF_WAIT).max(LOOK_EVERY);
    // The last look is the one that gives up.
    (now + pause).min(until.max(now + LOOK_EVERY))
}

/// The looks that users have had since a moment.
#[derive(Debug, Default)]
pub(super) struct Looks {
    since: Nanos,
    taken: BTreeMap<(u32, Cause), u32>,
}

impl Looks {
    /// Whether the user may look now, for that.
    pub(super) fn take(&mut self, uid: u32, cause: Cause, now: Nanos) -> bool {
        if now.since(self.since) >= LOOK_EVERY {
            self.since = now;
            self.taken.clear();
        }
        let looks = self.taken.entry((uid, cause)).or_insert(0);
        let may = *looks < LOOKS_MAX;
        *looks += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_answer_is_looked_at_some_twenty_times_before_it_is_given_up() {
        let began = Nanos::from_secs(100);
        let until = began + REACH_MAX;
        let (mut now, mut looks) = (began, 0);
        while now < until {
            let next = next_look(now, until);
            assert!(next >= now + LOOK_EVERY);
            now = next;
            looks += 1;
        }
        assert!((15..=25).contains(&looks), "{looks}");
        assert!(now <= until + LOOK_EVERY, "it is given up in time");
    }

    #[test]
    fn an_answer_within_a_tenth_of_a_second_is_seen_within_twenty_five_milliseconds() {
        let began = Nanos::from_secs(1);
        for waited_ms in 0..100 {
            let now = began + Nanos::from_millis(waited_ms);
            let pause = next_look(now, began + REACH_MAX).since(now);
            assert!(pause <= Nanos::from_millis(25), "{pause:?} after {waited_ms} ms");
        }
    }

    #[test]
    fn a_user_who_looks_too_often_waits_and_others_do_not() {
        let mut looks = Looks::default();
        let now = Nanos::from_secs(1);
        let cause = Cause::Connect;
        let taken = (0..1000).filter(|_| looks.take(1000, cause, now)).count();
        assert_eq!(taken, LOOKS_MAX as usize);
        assert!(looks.take(1001, cause, now) && looks.take(0, cause, now));
        assert!(looks.take(1000, cause, now + LOOK_EVERY));
    }

    #[test]
    fn the_answers_of_a_user_leave_its_connections_and_its_own_datagrams_their_looks() {
        let mut looks = Looks::default();
        let now = Nanos::from_secs(1);
        while looks.take(1000, Cause::Answer, now) {}
        for cause in [Cause::Connect, Cause::Send] {
            let taken = (0..1000).filter(|_| looks.take(1000, cause, now)).count();
            assert_eq!(taken, LOOKS_MAX as usize, "{cause:?}");
        }
    }
}
