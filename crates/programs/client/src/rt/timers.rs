//! The deadlines of one worker, in their order. It decides; the time is an argument.
//!
//! A timer fires in the first round of its worker that begins at or after its deadline, never
//! before it: its lateness is the rest of the round that it fell into, plus the wake-up of a
//! sleeper.

use std::collections::BTreeMap;

use base::Nanos;

/// What waits for its time; `T` is whom to tell.
///
/// A sorted map rather than a heap: a timeout that is not needed any more, the usual end of one, is
/// taken out at once instead of filling memory until its time comes.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    waiting: BTreeMap<TimerKey, T>,
    next_id: u64,
    lateness: Lateness,
}

/// One timer of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerKey {
    deadline: Nanos,
    id: u64,
}

/// How late the timers were that have fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lateness {
    pub(crate) fired: u64,
    pub(crate) sum: Nanos,
    pub(crate) max: Nanos,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Self {
        Self { waiting: BTreeMap::new(), next_id: 0, lateness: Lateness::default() }
    }

    /// Has `whom` told at `deadline`.
    pub(crate) fn insert(&mut self, deadline: Nanos, whom: T) -> TimerKey {
        let key = TimerKey { deadline, id: self.next_id };
        self.next_id += 1;
        self.waiting.insert(key, whom);
        key
    }

    /// The one to be told, while the timer has not fired.
    pub(crate) fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.waiting.get_mut(&key)
    }

    /// The timer is not needed any more; who was to be told, if it has not fired.
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.waiting.remove(&key)
    }

    /// The next deadline.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.waiting.first_key_value().map(|(key, _)| key.deadline)
    }

    /// Whom to tell next of those whose time has come.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<T> {
        let first = self.waiting.first_entry()?;
        let late = match first.key().deadline {
            deadline if deadline > now => return None,
            deadline => now.since(deadline),
        };
        self.lateness.fired += 1;
        self.lateness.sum += late;
        self.lateness.max = self.lateness.max.max(late);
        Some(first.remove())
    }

    pub(crate) fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) -> Vec<T> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_timer_that_was_taken_out_does_not_fire_and_leaves_nothing_behind() {
        let mut timers = Timers::new();
        let keys: Vec<_> = (0..1000).map(|n| timers.insert(Nanos(n % 10), n)).collect();
        for &key in &keys[1..] {
            assert!(timers.remove(key).is_some());
        }
        assert_eq!(timers.waiting.len(), 1);
        assert_eq!(timers.pop_due(Nanos(9)), Some(0));
        assert_eq!(timers.pop_due(Nanos(9)), None);
        assert_eq!(timers.remove(keys[0]), None, "it has fired");
    }

    proptest! {
        /// Rounds of any length: the virtual time of a worker that is now and then held up.
        #[test]
        fn every_timer_fires_in_the_first_round_at_or_after_its_deadline_and_in_order(
            deadlines in proptest::collection::vec(0..10_000_u64, 1..60),
            rounds in proptest::collection::vec(1..2_000_u64, 12..40),
        ) {
            let mut timers = Timers::new();
            for &deadline in &deadlines {
                timers.insert(Nanos(deadline), deadline);
            }
            let longest = rounds.iter().copied().max().unwrap_or(0);
            let (mut now, mut before, mut fired) = (Nanos::ZERO, None, Vec::new());
            for round in rounds {
                while let Some(deadline) = timers.pop_due(now) {
                    prop_assert!(deadline <= now.0, "never early");
                    prop_assert!(before.is_none_or(|before: Nanos| before.0 < deadline));
                    fired.push(deadline);
                }
                prop_assert!(timers.next().is_none_or(|next| next > now));
                before = Some(now);
                now += Nanos(round);
            }
            prop_assert!(fired.is_sorted());
            let last = before.map_or(0, |before| before.0);
            prop_assert_eq!(fired.len(), deadlines.iter().filter(|&&d| d <= last).count());
            prop_assert!(timers.lateness().max.0 < longest, "late by less than a round");
            prop_assert_eq!(timers.lateness().fired, fired.len() as u64);
        }
    }
}
