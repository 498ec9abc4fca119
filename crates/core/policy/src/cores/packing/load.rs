//! How many cores an application's load takes: a few sums, and when they say enough.
//!
//! Between the share of a core up to which a queue stays short and the share at which it does not
//! lies a wide gap, and a core is given back only when each of many looks could do without it, so
//! that an unchanged load turns no decision back. Where a decision is turned back nevertheless,
//! because something was late or by chance, the number stays for a time that doubles each time.

use base::Nanos;
use serde::{Deserialize, Serialize};

use crate::number;

/// A look takes at least this long ...
const LOOK: Nanos = Nanos::from_millis(1);
/// ... and until this many items are done, by which a load is known within a tenth ...
const LOOK_ITEMS: u32 = 256;
/// ... but no longer than this.
const LOOK_MOST: Nanos = Nanos::from_millis(10);
/// When something is late, this many items say how many cores are missing.
const HASTE_ITEMS: u32 = 16;
/// A worker is given as much as takes this share of its core, in thousandths ...
const FILL: u64 = 650;
/// ... and a worker more is asked for when two looks find more than this.
const FULL: u64 = 850;
/// Cores are given back when each look of this time could do without them ...
const CALM: Nanos = Nanos::from_millis(10);
/// ... and there were at least this many of them.
const CALM_LOOKS: u32 = 8;
/// After more workers were asked for, their number is not lowered for this long, and for twice as
/// long each time that this takes a decision back ...
const HOLD: Nanos = Nanos::from_millis(20);
/// ... but no longer than this.
const HOLD_MOST: Nanos = Nanos::from_secs(10);
/// A decision that lasted for this many times as long was right: the load has changed since.
const REGRET: u64 = 64;
/// Items beyond which a look counts no further.
const ITEMS_MOST: u32 = 1 << 30;

/// What a worker did from sample to sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Work {
    /// Items that came.
    pub(super) put: u32,
    /// Items that were done.
    pub(super) taken: u32,
    /// Time with something in its queue, as far as samples can tell.
    #[serde(with = "number::nanos")]
    pub(super) busy: Nanos,
    /// Time in which it certainly worked ...
    #[serde(with = "number::nanos")]
    pub(super) sure: Nanos,
    /// ... and what was done in that time.
    pub(super) sure_taken: u32,
}

impl Work {
    fn add(&mut self, more: Self) {
        let sum = |one: u32, other: u32| one.saturating_add(other).min(ITEMS_MOST);
        self.put = sum(self.put, more.put);
        self.taken = sum(self.taken, more.taken);
        self.sure_taken = sum(self.sure_taken, more.sure_taken);
        self.busy += more.busy;
        self.sure += more.sure;
    }
}

/// What one application's workers did since the last look, and what came of the looks before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cores) struct Load {
    /// None of its workers has run yet.
    is_new: bool,
    /// Of this tick: something was late.
    #[serde(skip)]
    pub(super) is_late: bool,
    #[serde(with = "number::nanos")]
    tick: Nanos,
    /// Since when, and what, the look under way has seen.
    #[serde(with = "number::nanos")]
    began: Nanos,
    look: Work,
    /// What an item takes, averaged over some looks.
    #[serde(with = "number::nanos")]
    service: Nanos,
    /// Looks in a row that were too full.
    full: u8,
    calm: Calm,
    hold: Hold,
    /// Number of workers that are wanted; 0: as many as there are.
    wanted: u16,
    /// When something late says something again: what waits after a change waits for the change.
    #[serde(with = "number::nanos")]
    patient_until: Nanos,
}

/// The most that any look since then would have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Calm {
    #[serde(with = "number::nanos")]
    since: Nanos,
    looks: u32,
    workers: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hold {
    #[serde(with = "number::nanos")]
    until: Nanos,
    #[serde(with = "number::nanos")]
    length: Nanos,
    /// When the number was lowered last.
    #[serde(with = "number::nanos")]
    lowered: Nanos,
}

/// Workers that a load needs, to be filled and not full.
fn needed(load: u64) -> u16 {
    load.div_ceil(FILL).clamp(1, u64::from(u16::MAX)) as u16
}

impl Load {
    pub(super) fn of_a_new_application() -> Self {
        Self { is_new: true, ..Self::default() }
    }

    /// Whether nothing was added in this tick before.
    pub(super) fn is_first_of_tick(&mut self, now: Nanos) -> bool {
        let is_first = std::mem::replace(&mut self.tick, now) != now;
        if is_first {
            self.is_late = false;
            if self.began == Nanos::ZERO {
                self.began = now;
                self.calm.since = now;
            }
        }
        is_first
    }

    pub(super) fn add(&mut self, work: Work) {
        self.look.add(work);
    }

    /// What an item takes.
    pub(super) fn service(&self) -> Nanos {
        self.service
    }

    /// Whether it runs for the first time.
    pub(super) fn begins(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Whether [`Self::target`] would say anything new.
    #[inline]
    pub(super) fn has_news(&self, now: Nanos) -> bool {
        self.wanted > 0 || self.is_over(now) || self.is_late && now >= self.patient_until
    }

    /// Whether the look has seen enough.
    fn is_over(&self, now: Nanos) -> bool {
        let passed = now.since(self.began);
        passed >= LOOK && (self.look.taken >= LOOK_ITEMS || passed >= LOOK_MOST)
    }

    /// How many workers are to have flows, of `workers` that have and `most` that may.
    pub(super) fn target(&mut self, now: Nanos, workers: usize, most: usize) -> usize {
        let has = workers.min(usize::from(u16::MAX)) as u16;
        if usize::from(self.wanted) <= workers {
            self.wanted = 0;
        }
        if self.is_over(now) {
            self.service = self.learned();
            let load = self.load(now);
            (self.began, self.look) = (now, Work::default());
            let target = self.judge(load, has, now);
            if target < has {
                self.patient_until = now + LOOK;
                self.wanted = 0;
                return usize::from(target);
            }
            self.wanted = if target > has { target } else { 0 };
        } else if self.is_late && now >= self.patient_until && workers < most {
            let mut target = has.saturating_add(1);
            if self.look.taken >= HASTE_ITEMS {
                target = target.max(needed(self.load(now)));
            }
            self.hold_on(now);
            self.wanted = self.wanted.max(target);
        }
        usize::from(self.wanted.max(has)).min(most.max(workers))
    }

    /// A look is over.
    fn judge(&mut self, load: u64, workers: u16, now: Nanos) -> u16 {
        let needed = needed(load);
        self.calm.looks = self.calm.looks.saturating_add(1);
        self.calm.workers = self.calm.workers.max(needed);
        if load > u64::from(workers) * FULL {
            self.full += 1;
            if self.full < 2 {
                return workers;
            }
            self.hold_on(now);
            return needed.max(workers.saturating_add(1));
        }
        self.full = 0;
        if now.since(self.calm.since) < CALM || self.calm.looks < CALM_LOOKS {
            return workers;
        }
        let enough = std::mem::replace(&mut self.calm, Calm { since: now, ..Calm::default() });
        if now < self.hold.until || enough.workers >= workers {
            return workers;
        }
        self.hold.lowered = now;
        self.change(now);
        enough.workers
    }

    /// What an item takes, with what this look has shown: in the time in which workers certainly
    /// worked, or else, slowly, as far as samples can tell.
    fn learned(&self) -> Nanos {
        let Self { look, service, .. } = self;
        let sampled = look.busy.0.checked_div(u64::from(look.taken));
        let each = match (service.0, look.sure_taken) {
            (0, 0) => sampled.unwrap_or(0),
            (0, done) => look.sure.0 / u64::from(done),
            (known, 0) => sampled.map_or(known, |each| (63 * known + each) / 64),
            (known, done) => (8 * known + look.sure.0) / (8 + u64::from(done)),
        };
        Nanos(each)
    }

    /// What came in this look, in thousandths of a core.
    fn load(&self, now: Nanos) -> u64 {
        let passed = u128::from(now.since(self.began).0.max(1));
        let work = u128::from(self.look.put) * u128::from(self.learned().0);
        // Beyond the largest machine there is nothing to tell apart.
        (work * 1000 / passed).min(1_000_000) as u64
    }

    /// More workers are asked for. When that takes back what was decided not long ago, the next
    /// such decision waits for twice as long.
    fn hold_on(&mut self, now: Nanos) {
        let Hold { length, lowered, .. } = self.hold;
        let regretted = Nanos(length.max(HOLD).0 * REGRET);
        let is_taken_back = lowered > Nanos::ZERO && now.since(lowered) < regretted;
        let length = if is_taken_back { Nanos(2 * length.0) } else { HOLD };
        let length = length.max(HOLD).min(HOLD_MOST);
        self.hold = Hold { until: now + length, length, lowered };
        self.change(now);
    }

    /// The number of workers changes: what was seen with the other number says nothing.
    fn change(&mut self, now: Nanos) {
        self.full = 0;
        self.calm = Calm { since: now, ..Calm::default() };
        (self.began, self.look) = (now, Work::default());
        self.patient_until = now + LOOK;
    }
}
