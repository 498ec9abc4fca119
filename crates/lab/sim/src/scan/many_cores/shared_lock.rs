//! Scale-up by polling: one queue, and a lock at which all idle cores take turns.
//!
//! The lock is fair: whoever has waited for longest gets it, and each time it changes hands its
//! line goes from core to core. Turns that find nothing are not played one by one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use base::Nanos;

use super::{Item, Items, Outcome, Plan};

struct WorkerSet {
    /// Cores that wait for the lock.
    waiting: VecDeque<u32>,
    /// Cores at work, by the time at which they are done.
    busy: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// When the lock is free, and who had it last.
    free: Nanos,
    last: u32,
    queue: VecDeque<Item>,
    was_empty: bool,
    outcome: Outcome,
}

pub(super) fn run(plan: &Plan, items: &mut Items) -> Outcome {
    let mut worker_set = WorkerSet {
        waiting: (0..plan.cores).collect(),
        busy: BinaryHeap::new(),
        free: Nanos::ZERO,
        last: 0,
        queue: VecDeque::new(),
        was_empty: true,
        outcome: Outcome::default(),
    };
    while items.next_at().is_some() || !worker_set.queue.is_empty() {
        worker_set.turn(plan, items);
    }
    worker_set.outcome
}

impl WorkerSet {
    /// One turn at the lock.
    fn turn(&mut self, plan: &Plan, items: &mut Items) {
        let (line, look) = (plan.costs.line.nanos(plan.level), plan.costs.item.nanos(plan.level));
        self.join();
        let Some(core) = self.waiting.pop_front() else { return };
        let comes = if core == self.last { Nanos::ZERO } else { line };
        self.last = core;
        let begin = self.free + comes;
        self.admit(begin, plan, items);
        if self.queue.is_empty() {
            self.was_empty = true;
            self.free = begin + look;
            self.outcome.empty_turns += 1;
            self.waiting.push_back(core);
            return self.pass(line + look, items);
        }
        self.serve(core, begin, plan);
    }

    /// Cores that are done wait for the lock; if nobody does, the first to be done is next.
    fn join(&mut self) {
        while let Some(&Reverse((end, core))) = self.busy.peek() {
            if end > self.free && !self.waiting.is_empty() {
                return;
            }
            self.busy.pop();
            self.free = self.free.max(end);
            self.waiting.push_back(core);
        }
    }

    fn admit(&mut self, now: Nanos, plan: &Plan, items: &mut Items) {
        let room = plan.ring as usize * plan.cores as usize;
        while let Some(item) = items.by(now) {
            if self.queue.len() >= room {
                self.outcome.dropped += 1;
            } else {
                self.queue.push_back(item);
            }
        }
    }

    /// Turn after turn finds nothing, until something arrives or one more core waits.
    fn pass(&mut self, turn: Nanos, items: &Items) {
        let Some(arrival) = items.next_at() else { return };
        let done = self.busy.peek().map_or(Nanos::FAR_FUTURE, |&Reverse((end, _))| end);
        let left = arrival.min(done).since(self.free);
        if turn == Nanos::ZERO {
            self.free += left;
            return;
        }
        let turns = left.0 / turn.0;
        self.outcome.empty_turns += turns;
        self.free += Nanos(turns * turn.0);
        let shift = turns as usize % self.waiting.len();
        self.waiting.rotate_left(shift);
        self.last = self.waiting.back().copied().unwrap_or(self.last);
    }

    /// The core takes a burst under the lock, and works on it outside.
    fn serve(&mut self, core: u32, begin: Nanos, plan: &Plan) {
        let (costs, level) = (&plan.costs, plan.level);
        let fetch =
            if std::mem::take(&mut self.was_empty) { costs.fetch.nanos(level) } else { Nanos(0) };
        let count = self.queue.len().min(plan.burst as usize);
        let taking = Nanos(costs.item.nanos(level).0 * count as u64);
        self.free = begin + fetch + taking;
        let mut now = self.free;
        for item in self.queue.drain(..count) {
            now += item.work;
            self.outcome.latency.record(now.since(item.arrived));
        }
        self.outcome.delivered += count as u64;
        self.outcome.elapsed = self.outcome.elapsed.max(now);
        self.busy.push(Reverse((now, core)));
    }
}
