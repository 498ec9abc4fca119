//! Scale-up with a ready set: many queues, of which a core claims one for a turn.
//!
//! Who claims a queue has it alone, so that its order is kept. Claims go through one word, whose
//! line goes from core to core; idle cores touch nothing.

use std::collections::VecDeque;

use base::Nanos;

use super::{Item, Items, Outcome, Plan};
use crate::EventQueue;

#[derive(Clone, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// It is in the list of ready ones, or a core has it.
    is_taken: bool,
    ran_empty: bool,
}

/// A core has done its turn of this queue.
struct Done {
    core: u32,
    queue: u32,
}

struct WorkerSet<'a> {
    plan: &'a Plan,
    queues: Vec<Queue>,
    ready: VecDeque<u32>,
    idle: Vec<u32>,
    /// Items in all queues.
    waiting: usize,
    /// When the word of the claims is free, and whose cache it is in.
    free: Nanos,
    last: u32,
    events: EventQueue<Done>,
    outcome: Outcome,
}

pub(super) fn run(plan: &Plan, items: &mut Items) -> Outcome {
    let queue = Queue { ran_empty: true, ..Queue::default() };
    let mut worker_set = WorkerSet {
        plan,
        queues: vec![queue; plan.flows as usize],
        ready: VecDeque::new(),
        idle: (0..plan.cores).collect(),
        waiting: 0,
        free: Nanos::ZERO,
        last: 0,
        events: EventQueue::default(),
        outcome: Outcome::default(),
    };
    loop {
        let done = worker_set.events.next_at().unwrap_or(Nanos::FAR_FUTURE);
        if let Some(item) = items.by(done) {
            worker_set.arrive(item);
        } else if let Some(done) = worker_set.events.take() {
            worker_set.done(&done);
        } else {
            return worker_set.outcome;
        }
    }
}

impl WorkerSet<'_> {
    fn arrive(&mut self, item: Item) {
        let room = self.plan.ring as usize * self.plan.cores as usize;
        if self.waiting >= room {
            self.outcome.dropped += 1;
            return;
        }
        let number = item.lot % self.plan.flows;
        let queue = &mut self.queues[number as usize];
        queue.items.push_back(item);
        self.waiting += 1;
        if std::mem::replace(&mut queue.is_taken, true) {
            return;
        }
        match self.idle.pop() {
            Some(core) => {
                let notice = self.plan.costs.notice.nanos(self.plan.level);
                self.claim(core, number, item.arrived + notice);
            }
            None => self.ready.push_back(number),
        }
    }

    fn done(&mut self, done: &Done) {
        let now = self.events.now();
        let queue = &mut self.queues[done.queue as usize];
        if queue.items.is_empty() {
            queue.is_taken = false;
            queue.ran_empty = true;
        } else {
            self.ready.push_back(done.queue);
        }
        match self.ready.pop_front() {
            Some(next) => {
                let ask = self.plan.costs.ask.nanos(self.plan.level);
                self.claim(done.core, next, now + ask);
            }
            None => self.idle.push(done.core),
        }
    }

    /// The core has the queue for a turn.
    fn claim(&mut self, core: u32, number: u32, asked: Nanos) {
        let (costs, level) = (&self.plan.costs, self.plan.level);
        let comes = if self.last == core { Nanos::ZERO } else { costs.line.nanos(level) };
        self.last = core;
        self.free = self.free.max(asked) + comes;
        let queue = &mut self.queues[number as usize];
        let fetch = std::mem::take(&mut queue.ran_empty);
        let mut now = self.free + if fetch { costs.fetch.nanos(level) } else { Nanos::ZERO };
        let count = queue.items.len().min(self.plan.burst as usize);
        for item in queue.items.drain(..count) {
            now += costs.item.nanos(level) + item.work;
            self.outcome.latency.record(now.since(item.arrived));
        }
        self.waiting -= count;
        self.outcome.delivered += count as u64;
        self.outcome.elapsed = self.outcome.elapsed.max(now);
        self.events.put(now, Done { core, queue: number });
    }
}
