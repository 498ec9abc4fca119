//! How a core spends its time, from one arrival to the next.

use std::collections::VecDeque;

use base::Nanos;
use load::Random;

use super::ready::Ready;
use super::{Feed, Idle, Outcome, Plan};
use crate::scan::Waiting;

/// A run ends when this many times as many items have come as were to be delivered.
const OFFERED_MOST: u64 = 20;

/// A core with its queues.
pub(super) struct Core {
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
    pub(super) fn new(plan: Plan, seed: u64) -> Self {
        let queues = plan.queues as usize;
        Self {
            plan,
            random: Random::new(seed),
            now: 0.0,
            next: 0,
            next_arrival: 0.0,
            rings: vec![VecDeque::new(); queues],
            ready: Ready::new(queues),
            has_found_nothing: true,
            ran_empty: vec![true; queues],
            outcome: Outcome::default(),
        }
    }

    pub(super) fn run(mut self) -> Outcome {
        match self.plan.feed {
            Feed::Saturated => self.run_saturated(),
            Feed::Rate(rate) => self.run_rate(rate.max(1e-3)),
        }
        self.finish()
    }

    fn run_rate(&mut self, rate: f64) {
        let gap = 1e9 / rate;
        self.next_arrival = gap * self.random.exponential();
        // An overload without bounds would play nothing but drops.
        let most = self.plan.items.saturating_mul(OFFERED_MOST);
        while self.outcome.delivered < self.plan.items && self.outcome.offered < most {
            self.admit(gap, most);
            match self.ready.next_from(self.next) {
                None => self.wait(),
                Some(distance) => self.go_to(distance),
            }
        }
    }

    /// What has arrived by now is in its queue.
    fn admit(&mut self, gap: f64, most: u64) {
        while self.next_arrival <= self.now && self.outcome.offered < most {
            let lot = self.random.below(self.plan.busy_queues) as usize;
            let queue = self.place_of(lot);
            self.outcome.offered += 1;
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

    /// There is something, that many queues ahead.
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
        // By the time that it comes back to a queue, what it has looked at meanwhile is in the
        // caches.
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
        self.outcome.offered = self.outcome.delivered;
    }

    fn finish(mut self) -> Outcome {
        let costs = &self.plan.costs;
        self.outcome.elapsed_ns = self.now;
        self.outcome.work_ns = self.outcome.delivered as f64 * self.plan.work.0 as f64;
        self.outcome.useful_instructions = self.outcome.useful_ns * costs.work_instructions_per_ns;
        let awake = self.outcome.useful_ns + self.outcome.useless_ns;
        self.outcome.cycles = awake * costs.cycles_per_ns;
        self.outcome
    }
}
