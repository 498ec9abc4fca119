//! What looking for work costs, from `calisto bench wait`.

use base::Nanos;

use crate::Level;

/// A measured duration in nanoseconds, with its range: a look costs fractions of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FineRange {
    /// The least that a round found.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The most.
    pub high: f64,
}

impl FineRange {
    /// No time at all.
    pub const FREE: Self = Self::new(0.0, 0.0, 0.0);

    /// From three numbers of nanoseconds.
    pub const fn new(low: f64, median: f64, high: f64) -> Self {
        Self { low, median, high }
    }

    /// The value of a level, in nanoseconds.
    pub const fn at(&self, level: Level) -> f64 {
        match level {
            Level::Low => self.low,
            Level::Median => self.median,
            Level::High => self.high,
        }
    }

    /// One after the other.
    pub const fn plus(self, other: Self) -> Self {
        Self::new(self.low + other.low, self.median + other.median, self.high + other.high)
    }

    /// The same to whole nanoseconds.
    pub fn nanos(&self, level: Level) -> Nanos {
        Nanos(self.at(level).round() as u64)
    }
}

/// A cost that grows when what it touches falls out of a cache.
///
/// A core that goes round over more lines than a cache holds finds none of them there: by the time
/// it comes back to one, the others have pushed it out. So it is a step and no slope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByCache {
    /// Everything is in the first level.
    pub l1: FineRange,
    /// In the second.
    pub l2: FineRange,
    /// Further away.
    pub beyond: FineRange,
}

/// What looking for work costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanCosts {
    /// Queues of which everything that a look touches fits in the first level.
    pub l1_queues: u32,
    /// The same for the second level.
    pub l2_queues: u32,
    /// A look at a queue that has nothing.
    pub empty: ByCache,
    /// The first look at a queue after a while that has something: lines that were not used
    /// meanwhile.
    pub touch: ByCache,
    /// The line with an item comes from the sender's core; while a queue never runs empty, lines
    /// come ahead.
    pub fetch: FineRange,
    /// Each item: taking it out.
    pub item: FineRange,
    /// Asking the ready set while it has something.
    pub ask: FineRange,
    /// From a mark in an empty ready set to its reader knowing which queue.
    pub notice: FineRange,
    /// The sender's mark, for each time that it shows something.
    pub mark: FineRange,
    /// A line from one core to another: what a lock or a claim costs each time that it changes
    /// hands.
    pub line: FineRange,
    /// From the mark to a core that sleeps being at work.
    pub wake: FineRange,
    /// CPU time of falling asleep and waking.
    pub sleep: FineRange,
    /// Instructions of a look at an empty queue. With the next one: for how many are executed a
    /// cycle.
    pub look_instructions: f64,
    /// Instructions for each nanosecond of work on an item.
    pub work_instructions_per_ns: f64,
    /// Cycles a nanosecond.
    pub cycles_per_ns: f64,
}

impl Default for ScanCosts {
    /// This project's figures on two virtual CPUs, AMD EPYC of 2.6 GHz.
    ///
    /// From docs/figures/waiting.md: p50 when polling 94, 134, 545, 927, 1756, 3880 ns for 1, 64,
    /// 512, 1024, 2048, 4096 queues, half a round beyond the first; with a ready set 165, 144, 185,
    /// 195, 255, 324 ns; 278 to 439 M items a second with all queues busy, 283 to 306 M of one hot
    /// queue with a ready set in turns of 16; tax with sleep. A line from core to core takes 60,
    /// 126, 197 ns; a futex wake 22, 38, 43 us. The ranges of an empty look, a tenth less and 15 %
    /// more, are assumed. `mark` is an estimate of a locked addition, and what executes how many
    /// instructions is an assumption: there are no performance counters here.
    fn default() -> Self {
        let step = |median: f64| FineRange::new(median * 0.9, median, median * 1.15);
        Self {
            l1_queues: 256,
            l2_queues: 2047,
            empty: ByCache { l1: step(1.25), l2: step(1.7), beyond: step(1.8) },
            touch: ByCache {
                l1: FineRange::FREE,
                l2: FineRange::new(0.0, 25.0, 45.0),
                beyond: FineRange::new(50.0, 110.0, 250.0),
            },
            fetch: FineRange::new(80.0, 94.0, 126.0),
            item: FineRange::new(2.3, 2.8, 3.6),
            ask: FineRange::new(8.0, 10.0, 14.0),
            notice: FineRange::new(46.0, 65.0, 110.0),
            mark: FineRange::new(10.0, 20.0, 40.0),
            line: FineRange::new(60.0, 126.0, 197.0),
            wake: FineRange::new(22_000.0, 38_000.0, 43_000.0),
            sleep: FineRange::new(2_000.0, 3_200.0, 4_000.0),
            look_instructions: 11.0,
            work_instructions_per_ns: 2.6,
            cycles_per_ns: 2.6,
        }
    }
}

impl ScanCosts {
    /// Nothing costs anything: what is left is queues, which theory knows.
    pub fn free() -> Self {
        let free = ByCache { l1: FineRange::FREE, l2: FineRange::FREE, beyond: FineRange::FREE };
        Self {
            empty: free,
            touch: free,
            fetch: FineRange::FREE,
            item: FineRange::FREE,
            ask: FineRange::FREE,
            notice: FineRange::FREE,
            mark: FineRange::FREE,
            line: FineRange::FREE,
            wake: FineRange::FREE,
            sleep: FineRange::FREE,
            ..Self::default()
        }
    }

    /// What a look at an empty one of that many queues costs, in nanoseconds.
    pub fn empty_look(&self, queues: u32, level: Level) -> f64 {
        self.by_cache(&self.empty, queues).at(level)
    }

    /// What the first look at one of that many queues costs besides when it has something, in
    /// nanoseconds.
    pub fn first_touch(&self, queues: u32, level: Level) -> f64 {
        self.by_cache(&self.touch, queues).at(level)
    }

    fn by_cache(&self, of: &ByCache, queues: u32) -> FineRange {
        if queues <= self.l1_queues {
            of.l1
        } else if queues <= self.l2_queues {
            of.l2
        } else {
            of.beyond
        }
    }
}
