//! What the runtime has done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

use crate::rt::timers::Lateness;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident)+) => {
        /// What one worker has done, or all of them together, since they attached.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// The longest poll of a task; one that still lasts counts as far as it was seen.
            pub longest_poll: Nanos,
            /// Timers that have fired.
            pub timers: u64,
            /// How late they were on average, from their deadline to the wake-up of their task.
            pub timer_lateness: Nanos,
            /// How late the latest of them was.
            pub timer_lateness_max: Nanos,
        }

        /// The same as it is counted. Each is written by one thread most of the time.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Count,)+
            pub(crate) longest_poll: Longest,
        }

        impl Counters {
            pub(crate) fn stats(&self, lateness: Lateness) -> Stats {
                Stats {
                    $($name: self.$name.get(),)+
                    longest_poll: self.longest_poll.get(),
                    timers: lateness.fired,
                    timer_lateness: Nanos(lateness.sum.0 / lateness.fired.max(1)),
                    timer_lateness_max: lateness.max,
                }
            }
        }

        impl Stats {
            /// The sum of both.
            #[must_use]
            pub fn and(self, other: Self) -> Self {
                let timers = self.timers + other.timers;
                let late = self.timer_lateness.0.saturating_mul(self.timers)
                    .saturating_add(other.timer_lateness.0.saturating_mul(other.timers));
                Self {
                    $($name: self.$name + other.$name,)+
                    longest_poll: self.longest_poll.max(other.longest_poll),
                    timers,
                    timer_lateness: Nanos(late / timers.max(1)),
                    timer_lateness_max: self.timer_lateness_max.max(other.timer_lateness_max),
                }
            }

            /// The counts by name, for programs that print them.
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Polls of tasks.
    polls
    /// Tasks spawned.
    spawned
    /// Tasks that have panicked; nothing but their handle suffered.
    panics
    /// Tasks taken over from another worker's queue.
    tasks_stolen
    /// Times that a class of flows was taken over from another worker for some packets.
    group_steals
    /// Classes of flows that were taken over again and again: their owner has too much to do, and
    /// the daemon would do well to move some of its groups.
    groups_stolen
    /// Times that the worker slept.
    parks
    /// Times that a thread of this process woke the worker.
    wakes
    /// Polls that took longer than `Settings::long_poll`.
    long_polls
    /// Packets received.
    received
    /// Packets given to be sent.
    sent
    /// Packets dropped since `Settings::queue_packets` waited already.
    dropped_full
    /// Packets dropped that were for none of the addresses that were listened on, or no UDP
    /// packets.
    dropped_stray
    /// Packets that a program wanted sent and that were not: no buffer, no way to the receiver.
    unsent
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The longest of many lengths.
#[derive(Debug, Default)]
pub(crate) struct Longest(AtomicU64);

impl Longest {
    #[inline]
    pub(crate) fn note(&self, length: Nanos) {
        if length > self.get() {
            self.0.fetch_max(length.0, Ordering::Relaxed);
        }
    }

    fn get(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up_and_their_lateness_is_weighed_by_their_timers() {
        let counters = Counters::default();
        counters.polls.add(3);
        counters.longest_poll.note(Nanos(50));
        counters.longest_poll.note(Nanos(40));
        let one = counters.stats(Lateness { fired: 1, sum: Nanos(100), max: Nanos(100) });
        let other = counters.stats(Lateness { fired: 3, sum: Nanos(60), max: Nanos(30) });
        let both = one.and(other);
        assert_eq!((both.polls, both.longest_poll), (6, Nanos(50)));
        assert_eq!((both.timers, both.timer_lateness), (4, Nanos(40)));
        assert_eq!(both.timer_lateness_max, Nanos(100));
        assert!(both.counts().contains(&("polls", 6)));
    }
}
