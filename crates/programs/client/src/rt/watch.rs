//! How long a poll has taken, seen by the worker at its end and by the watchdog while it lasts.
//!
//! It decides; the times are arguments.

use std::fmt;
use std::panic::Location;

use base::Nanos;

/// Where a task was spawned, and what its program calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The name given to [`crate::rt::Runtime::spawn_named`] and the like.
    pub name: Option<&'static str>,
    /// The line that spawned it.
    pub location: &'static Location<'static>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{name} ({})", self.location),
            None => write!(f, "{}", self.location),
        }
    }
}

/// Polls of the tasks of one site that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPoll {
    /// The line that spawned the tasks, and the name that it gave them.
    pub site: Site,
    /// How many polls.
    pub count: u64,
    /// The longest; one that still lasts is counted as far as it was seen.
    pub longest: Nanos,
}

/// The poll that a worker is in.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    poll: Option<Poll>,
}

#[derive(Clone, Copy, Debug)]
struct Poll {
    begun: Nanos,
    site: Site,
    /// The watchdog has counted it.
    is_counted: bool,
}

/// A poll that takes longer than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    pub(crate) site: Site,
    /// So far.
    pub(crate) length: Nanos,
    /// It was not counted before.
    pub(crate) is_new: bool,
}

impl Watch {
    pub(crate) fn begin(&mut self, now: Nanos, site: Site) {
        self.poll = Some(Poll { begun: now, site, is_counted: false });
    }

    /// The poll is over; `Some` when it took longer than `most`.
    pub(crate) fn end(&mut self, now: Nanos, most: Nanos) -> Option<Overrun> {
        let overrun = self.look(now, most);
        self.poll = None;
        overrun
    }

    /// `Some` when the poll has taken longer than `most` already.
    pub(crate) fn look(&mut self, now: Nanos, most: Nanos) -> Option<Overrun> {
        let poll = self.poll.as_mut()?;
        let length = now.since(poll.begun);
        if length <= most {
            return None;
        }
        let is_new = !std::mem::replace(&mut poll.is_counted, true);
        Some(Overrun { site: poll.site, length, is_new })
    }
}

/// Sites that are remembered, at most: a program has few lines that spawn.
const SITES_MAX: usize = 64;

/// All long polls, by site, the first [`SITES_MAX`] of them.
#[derive(Debug, Default)]
pub(crate) struct LongPolls {
    sites: Vec<LongPoll>,
}

impl LongPolls {
    pub(crate) fn note(&mut self, overrun: Overrun) {
        let Overrun { site, length, is_new } = overrun;
        if let Some(known) = self.sites.iter_mut().find(|known| known.site == site) {
            known.count += u64::from(is_new);
            known.longest = known.longest.max(length);
        } else if self.sites.len() < SITES_MAX {
            self.sites.push(LongPoll { site, count: 1, longest: length });
        }
    }

    pub(crate) fn all(&self) -> Vec<LongPoll> {
        self.sites.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Nanos = Nanos(100);

    #[track_caller]
    fn site(name: &'static str) -> Site {
        Site { name: Some(name), location: Location::caller() }
    }

    #[test]
    fn a_poll_is_long_after_its_limit_and_counted_once_whoever_sees_it_first() {
        let site = site("slow");
        let mut watch = Watch::default();
        assert_eq!(watch.look(Nanos(1000), MOST), None, "there is no poll");
        watch.begin(Nanos(1000), site);
        assert_eq!(watch.look(Nanos(1100), MOST), None);
        let seen = watch.look(Nanos(1101), MOST);
        assert_eq!(seen, Some(Overrun { site, length: Nanos(101), is_new: true }));
        let seen = watch.end(Nanos(1300), MOST);
        assert_eq!(seen, Some(Overrun { site, length: Nanos(300), is_new: false }));
        assert_eq!(watch.look(Nanos(5000), MOST), None, "it is over");
        watch.begin(Nanos(5000), site);
        assert_eq!(watch.end(Nanos(5001), MOST), None);
        watch.begin(Nanos(5001), site);
        assert!(watch.end(Nanos(5102), MOST).is_some_and(|overrun| overrun.is_new));
    }

    #[test]
    fn long_polls_are_kept_by_site_and_sites_are_bounded() {
        let mut polls = LongPolls::default();
        let slow = site("slow");
        for (length, is_new) in [(200, true), (900, false), (300, true)] {
            polls.note(Overrun { site: slow, length: Nanos(length), is_new });
        }
        assert_eq!(polls.all(), [LongPoll { site: slow, count: 2, longest: Nanos(900) }]);
        assert!(slow.to_string().starts_with("slow (") && slow.to_string().contains("watch.rs"));
        let names: Vec<&'static str> =
            (0..100).map(|n| &*Box::leak(format!("task-{n}").into_boxed_str())).collect();
        for name in names {
            polls.note(Overrun { site: site(name), length: MOST, is_new: true });
        }
        assert_eq!(polls.all().len(), SITES_MAX);
    }
}
