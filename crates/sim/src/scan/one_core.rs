//! One core that serves many queues: it polls them in turn, or asks a ready set.
//!
//! Empty rounds are not played: how far the core has come when the next item arrives is worked out. So a
//! run costs as much as its items, however many queues there are.

use std::collections::VecDeque;

use base::Nanos;
use load::Random;

use super::{ScanCosts, Waiting};
use crate::{Histogram, Level};

/// What comes in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Feed {
    /// So many items a second in all, independent of each other (Poisson).
    Rate(f64),
    /// The queues with traffic always have something: what is delivered then is the most that can be.
    Saturated,
}

/// When a core that has nothing to do sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Never: it looks on.
    Spins,
    /// At once, and costs nothing: a core that waits in hardware (QWAIT).
    Halts,
    /// After so long without anything, by a system call.
    Sleeps(Nanos),
}

/// One core and its queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Queues that it looks at.
    pub queues: u32,
    /// Of these, queues with traffic: all is balanced, one is unbalanced.
    pub busy_queues: u32,
    /// What comes in.
    pub feed: Feed,
    /// How it learns which queue has something.
    pub waiting: Waiting,
    /// What it does when none has. Only a ready set can let it sleep: who polls spins.
    pub idle: Idle,
    /// What it does for an item.
    pub work: Nanos,
    /// Items that it takes from a queue at once, at most.
    pub burst: u32,
    /// Items that a queue holds.
    pub ring: u32,
    /// What looking costs.
    pub costs: ScanCosts,
    /// Which end of their ranges.
    pub level: Level,
    /// Items to deliver.
    pub items: u64,
}

impl Default for Plan {
    /// One queue at light load, polled; bursts and rings of the sizes that DPDK's examples have.
    fn default() -> Self {
        Self {
            queues: 1,
            busy_queues: 1,
            feed: Feed::Rate(100_000.0),
            waiting: Waiting::Polling,
            idle: Idle::Spins,
            work: Nanos::ZERO,
            burst: 32,
            ring: 1024,
            costs: ScanCosts::default(),
            level: Level::Median,
            items: 20_000,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// From an item's arrival to the end of its work.
    pub latency: Histogram,
    /// Items done.
    pub delivered: u64,
    /// Items that found their queue full.
    pub dropped: u64,
    /// The whole time, in nanoseconds; as are the next three, which make it up.
    pub elapsed_ns: f64,
    /// On items: getting at them, taking them out, their work.
    pub useful_ns: f64,
    /// Looking in vain, and falling asleep and waking.
    pub useless_ns: f64,
    /// Without any instruction.
    pub asleep_ns: f64,
    /// Looks at queues, or at the ready set, that found nothing.
    pub empty_looks: f64,
    /// What the senders' marks have cost them, in nanoseconds.
    pub marks_ns: f64,
    /// Instructions on items.
    pub useful_instructions: f64,
    /// Instructions in vain.
    pub useless_instructions: f64,
    /// Cycles in which instructions were executed.
    pub cycles: f64,
}

impl Outcome {
    /// Items a second.
    pub fn throughput(&self) -> f64 {
        self.delivered as f64 / self.elapsed_ns * 1e9
    }

    /// The share of the time that was not on items though the core was at work: the polling tax.
    pub fn tax(&self) -> f64 {
        self.useless_ns / self.elapsed_ns
    }

    /// Looks in vain for each item.
    pub fn empty_looks_per_item(&self) -> f64 {
        self.empty_looks / self.delivered.max(1) as f64
    }

    /// Instructions a cycle while awake.
    pub fn instructions_per_cycle(&self) -> f64 {
        (self.useful_instructions + self.useless_instructions) / self.cycles.max(1.0)
    }
}

/// Runs a plan. Numbers that make no sense are taken to the nearest that do.
pub fn run(plan: &Plan, seed: u64) -> Outcome {
    let queues = plan.queues.max(1);
    let busy_queues = plan.busy_queues.clamp(1, queues);
    let mut core = Core {
        plan: Plan {
            queues,
            busy_queues,
            burst: plan.burst.max(1),
            ring: plan.ring.max(1),
            ..*plan
        },
        random: Random::new(seed),
        now: 0.0,
        next: 0,
        next_arrival: 0.0,
        rings: vec![VecDeque::new(); queues as usize],
        ready: Ready::new(queues as usize),
        has_found_nothing: true,
        ran_empty: vec![true; queues as usize],
        outcome: Outcome::default(),
    };
    match plan.feed {
        Feed::Saturated => core.run_saturated(),
        Feed::Rate(rate) => core.run_rate(rate.max(1e-3)),
    }
    core.finish()
}

struct Core {
    plan: Plan,
    random: Random,
    /// In nanoseconds, as all times here.
    now: f64,
    /// The queue that it looks at next.
    next: usize,
    next_arrival: f64,
    /// Arrivals of what is in each queue.
    rings: Vec<VecDeque<f64>>,
    /// Queues that have something.
    ready: Ready,
    /// Nothing was ready at the last look.
    has_found_nothing: bool,
    /// By queue: it had nothing at the last look.
    ran_empty: Vec<bool>,
    outcome: Outcome,
}

impl Core {
    fn run_rate(&mut self, rate: f64) {
        let gap = 1e9 / rate;
        self.next_arrival = gap * self.random.exponential();
        while self.outcome.delivered < self.plan.items {
            self.admit(gap);
            match self.ready.next_from(self.next) {
                None => self.wait(),
                Some(distance) => self.go_to(distance),
            }
        }
    }

    /// What has arrived by now is in its queue.
    fn admit(&mut self, gap: f64) {
        while self.next_arrival <= self.now {
            let lot = self.random.below(self.plan.busy_queues) as usize;
            let queue = self.place_of(lot);
            if self.rings[queue].len() >= self.plan.ring as usize {
                self.outcome.dropped += 1;
            } else {
                self.rings[queue].push_back(self.next_arrival);
                self.ready.set(queue);
                if self.plan.waiting == Waiting::ReadySet {
                    self.outcome.marks_ns += self.plan.costs.mark.at(self.plan.level);
                }
            }
            self.next_arrival += gap * self.random.exponential();
        }
    }

    /// Queues with traffic are spread evenly over all.
    fn place_of(&self, busy: usize) -> usize {
        busy * self.plan.queues as usize / self.plan.busy_queues as usize
    }

    /// Nothing is there: until the next arrival.
    fn wait(&mut self) {
        let Plan { costs, level, idle, waiting, queues, .. } = self.plan;
        let gap = (self.next_arrival - self.now).max(0.0);
        self.has_found_nothing = true;
        match (waiting, idle) {
            (Waiting::Polling, _) => {
                let look = costs.empty_look(queues, level);
                let looks = if look > 0.0 { (gap / look).ceil() } else { 0.0 };
                self.look_in_vain(looks, look);
                // With looks that cost nothing time goes on all the same.
                self.now = self.now.max(self.next_arrival);
                self.next = (self.next + (looks % f64::from(queues)) as usize) % queues as usize;
            }
            (Waiting::ReadySet, Idle::Spins) => {
                let look = costs.empty_look(1, level);
                let looks = if look > 0.0 { (gap / look).ceil() } else { 0.0 };
                self.look_in_vain(looks, look);
                self.now = self.now.max(self.next_arrival);
            }
            (Waiting::ReadySet, Idle::Halts) => {
                self.outcome.asleep_ns += gap;
                self.now = self.next_arrival;
            }
            (Waiting::ReadySet, Idle::Sleeps(after)) => {
                let (look, after) = (costs.empty_look(1, level), after.0 as f64);
                let (sleep, wake) = (costs.sleep.at(level), costs.wake.at(level));
                let (begin, spin) = (self.now, gap.min(after));
                let looks = if look > 0.0 { (spin / look).ceil() } else { 0.0 };
                self.look_in_vain(looks, look);
                self.now = self.now.max(begin + spin);
                if gap > after {
                    // Awake for falling asleep and for waking, and asleep for the rest.
                    let end = self.next_arrival.max(self.now) + wake;
                    let away = (end - self.now).max(0.0);
                    self.outcome.useless_ns += sleep.min(away);
                    self.outcome.asleep_ns += (away - sleep).max(0.0);
                    self.now = end;
                }
            }
        }
    }

    fn look_in_vain(&mut self, looks: f64, look: f64) {
        self.outcome.empty_looks += looks;
        self.outcome.useless_ns += looks * look;
        self.outcome.useless_instructions += looks * self.plan.costs.look_instructions;
        self.now += looks * look;
    }

    /// There is something, so many queues ahead.
    fn go_to(&mut self, distance: usize) {
        let Plan { costs, level, waiting, queues, .. } = self.plan;
        let queues = queues as usize;
        if waiting == Waiting::ReadySet {
            let ask = if std::mem::take(&mut self.has_found_nothing) {
                costs.notice.at(level)
            } else {
                costs.ask.at(level)
            };
            self.now += ask;
            self.outcome.useful_ns += ask;
            self.next = (self.next + distance) % queues;
            return self.serve();
        }
        let look = costs.empty_look(queues as u32, level);
        // What arrives on the way may lie nearer: then on from there.
        let ahead = ((self.next_arrival - self.now) / look).ceil();
        let looks = if ahead < distance as f64 { ahead.max(1.0) as usize } else { distance };
        self.look_in_vain(looks as f64, look);
        self.next = (self.next + looks) % queues;
        if looks == distance {
            self.serve();
        }
    }

    /// A turn of the queue where it stands.
    fn serve(&mut self) {
        let Plan { costs, level, queues, burst, work, .. } = self.plan;
        let queue = self.next;
        let begin = self.now;
        if std::mem::take(&mut self.ran_empty[queue]) {
            self.now += costs.fetch.at(level) + costs.first_touch(queues, level);
        }
        let each = costs.item.at(level) + work.0 as f64;
        let count = self.rings[queue].len().min(burst as usize);
        for arrival in self.rings[queue].drain(..count) {
            self.now += each;
            self.outcome.latency.record(Nanos((self.now - arrival).round() as u64));
        }
        self.outcome.delivered += count as u64;
        self.outcome.useful_ns += self.now - begin;
        if self.rings[queue].is_empty() {
            self.ready.clear(queue);
            self.ran_empty[queue] = true;
        }
        self.next = (queue + 1) % self.plan.queues as usize;
    }

    /// Every busy queue has a full burst whenever the core comes by. A round is like any other.
    fn run_saturated(&mut self) {
        let Plan { costs, level, queues, busy_queues, burst, work, waiting, items, .. } = self.plan;
        let (busy, burst) = (f64::from(busy_queues), f64::from(burst));
        let rounds = (items as f64 / (busy * burst)).ceil().max(1.0);
        let looks = rounds * (f64::from(queues) - busy);
        let each = costs.item.at(level) + work.0 as f64;
        let turn = match waiting {
            Waiting::Polling => costs.empty_look(queues, level),
            Waiting::ReadySet => costs.ask.at(level),
        };
        // By the time that it comes back to a queue, what it has looked at meanwhile is in the caches.
        let seen = if waiting == Waiting::Polling { queues } else { busy_queues };
        let touch = costs.first_touch(seen, level);
        let useful = rounds * busy * (turn + touch + burst * each);
        if waiting == Waiting::Polling {
            let look = costs.empty_look(queues, level);
            self.look_in_vain(looks, look);
        } else {
            self.outcome.marks_ns = rounds * busy * costs.mark.at(level);
        }
        self.now += useful;
        self.outcome.useful_ns += useful;
        self.outcome.delivered = (rounds * busy * burst) as u64;
    }

    fn finish(mut self) -> Outcome {
        let costs = &self.plan.costs;
        self.outcome.elapsed_ns = self.now;
        self.outcome.useful_instructions = self.outcome.useful_ns * costs.work_instructions_per_ns;
        let awake = self.outcome.useful_ns + self.outcome.useless_ns;
        self.outcome.cycles = awake * costs.cycles_per_ns;
        self.outcome
    }
}

/// Which queues have something: a bit each, and one for each word of them.
struct Ready {
    words: Vec<u64>,
    queues: usize,
}

impl Ready {
    fn new(queues: usize) -> Self {
        Self { words: vec![0; queues.div_ceil(64)], queues }
    }

    fn set(&mut self, queue: usize) {
        self.words[queue / 64] |= 1 << (queue % 64);
    }

    fn clear(&mut self, queue: usize) {
        self.words[queue / 64] &= !(1 << (queue % 64));
    }

    /// How far it is from `from` to the next queue that has something, `from` itself being no way at all.
    fn next_from(&self, from: usize) -> Option<usize> {
        let (word, bit) = (from / 64, from % 64);
        let count = self.words.len();
        // The word where it stands twice: what lies ahead in it first, what lies behind last.
        (0..=count).find_map(|step| {
            let at = (word + step) % count;
            let ahead = u64::MAX << bit;
            let mask = match step {
                0 => ahead,
                last if last == count => !ahead,
                _ => u64::MAX,
            };
            let found = self.words[at] & mask;
            let queue = at * 64 + found.trailing_zeros() as usize;
            (found != 0).then(|| (queue + self.queues - from) % self.queues)
        })
    }
}

#[cfg(test)]
mod tests;
