//! When a job is placed, stopped, and let go on. Decides only: the time and the cores are told.

use base::Nanos;
use sys::cpu_set::CpuSet;

/// Without a core for longer than this the job is stopped. Until then it is where it was: anybody
/// else there preempts it, and most cores come back within less.
pub(crate) const GRACE: Nanos = Nanos::from_millis(1);

/// What is to be done to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Let it run on these only.
    Place(CpuSet),
    /// Let it run on these only, and go on.
    Thaw(CpuSet),
    /// Stop it.
    Freeze,
}

/// What the job has had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Cores that it was given, counted one by one.
    pub(crate) grants: u64,
    /// Cores that were taken from it.
    pub(crate) revokes: u64,
    /// Times that it was stopped.
    pub(crate) freezes: u64,
    /// For how long it has held 0, 1, 2 .. cores.
    pub(crate) held: Vec<Nanos>,
}

/// The state of one job.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    held: CpuSet,
    is_frozen: bool,
    since: Nanos,
    counts: Counts,
}

impl Pace {
    /// A job that begins on `held`.
    pub(crate) fn new(now: Nanos, held: CpuSet) -> Self {
        let grants = held.len() as u64;
        Self { held, is_frozen: false, since: now, counts: Counts { grants, ..Counts::default() } }
    }

    /// The job holds these cores from now on.
    pub(crate) fn hold(&mut self, now: Nanos, held: CpuSet) -> Option<Step> {
        if held == self.held {
            return None;
        }
        self.count_time(now);
        let kept = held.intersection(&self.held).len();
        self.counts.grants += (held.len() - kept) as u64;
        self.counts.revokes += (self.held.len() - kept) as u64;
        self.held = held;
        if held.is_empty() {
            return None;
        }
        let was_frozen = std::mem::take(&mut self.is_frozen);
        Some(if was_frozen { Step::Thaw(held) } else { Step::Place(held) })
    }

    /// When [`Self::expire`] is to be called next.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        (self.held.is_empty() && !self.is_frozen).then(|| self.since + GRACE)
    }

    /// What is due by `now`.
    pub(crate) fn expire(&mut self, now: Nanos) -> Option<Step> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        self.is_frozen = true;
        self.counts.freezes += 1;
        Some(Step::Freeze)
    }

    /// What the job is to be like now, for whoever may have been missed; none while it waits for
    /// its grace to end.
    pub(crate) fn again(&self) -> Option<Step> {
        match (self.is_frozen, self.held.is_empty()) {
            (true, _) => Some(Step::Freeze),
            (false, true) => None,
            (false, false) => Some(Step::Place(self.held)),
        }
    }

    /// What it has had until `now`.
    pub(crate) fn finish(mut self, now: Nanos) -> Counts {
        self.count_time(now);
        self.counts
    }

    fn count_time(&mut self, now: Nanos) {
        let cores = self.held.len();
        let held = &mut self.counts.held;
        if held.len() <= cores {
            held.resize(cores + 1, Nanos::ZERO);
        }
        if let Some(time) = held.get_mut(cores) {
            time.0 += now.0.saturating_sub(self.since.0);
        }
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    const fn us(micros: u64) -> Nanos {
        Nanos::from_micros(micros)
    }

    #[test]
    fn a_job_follows_its_cores_and_is_stopped_only_after_the_grace() {
        let mut pace = Pace::new(us(0), set("1"));
        assert_eq!(pace.hold(us(10), set("1")), None);
        assert_eq!(pace.hold(us(100), set("1-2")), Some(Step::Place(set("1-2"))));
        assert_eq!((pace.deadline(), pace.expire(us(5_000))), (None, None));
        assert_eq!(pace.hold(us(10_000), set("")), None, "it stays where it is");
        assert_eq!(pace.deadline(), Some(us(11_000)));
        assert_eq!((pace.expire(us(10_999)), pace.again()), (None, None));
        assert_eq!(pace.expire(us(11_000)), Some(Step::Freeze));
        assert_eq!((pace.expire(us(12_000)), pace.deadline()), (None, None));
        assert_eq!(pace.again(), Some(Step::Freeze));
        assert_eq!(pace.hold(us(20_000), set("3")), Some(Step::Thaw(set("3"))));
        assert_eq!(pace.again(), Some(Step::Place(set("3"))));
    }

    #[test]
    fn a_core_that_comes_back_within_the_grace_stops_nothing() {
        let mut pace = Pace::new(us(0), set("1"));
        pace.hold(us(100), set(""));
        assert_eq!(pace.hold(us(900), set("1")), Some(Step::Place(set("1"))));
        assert_eq!(pace.deadline(), None);
        pace.hold(us(1_000), set(""));
        assert_eq!(pace.expire(us(1_101)), None, "the grace begins anew");
    }

    #[test]
    fn time_is_counted_by_how_many_cores_were_held_and_each_core_by_itself() {
        let mut pace = Pace::new(us(0), set("1"));
        pace.hold(us(10), set("1-3"));
        pace.hold(us(30), set("2,4"));
        pace.hold(us(60), set(""));
        assert_eq!(pace.expire(us(2_000)), Some(Step::Freeze));
        pace.hold(us(3_060), set("1"));
        let counts = pace.finish(us(3_100));
        assert_eq!(counts.held, [us(3_000), us(50), us(30), us(20)]);
        // Given: 1; 2 and 3; 4; 1. Taken: 1 and 3; 2 and 4.
        assert_eq!((counts.grants, counts.revokes, counts.freezes), (5, 4, 1));
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_breaks_nothing() {
        let mut pace = Pace::new(us(100), set("1"));
        pace.hold(us(100), set(""));
        pace.hold(us(50), set("2"));
        assert_eq!(pace.finish(us(0)).held, [us(0), us(0)]);
    }
}
