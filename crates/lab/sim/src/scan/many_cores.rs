//! Some cores and what arrives for them: a queue each (scale-out), or shared ones (scale-up).
//!
//! Scale-out is as many queues of theory: who comes behind a hiccup waits for it, though others are
//! idle. Scale-up leaves nobody idle while something waits, and pays for what the cores do to each
//! other: by polling they take turns at one lock, whether there is anything or not; with a ready
//! set an idle core touches nothing, and who has something to do claims one of many queues for a
//! turn.

mod own;
mod shared_lock;
mod shared_ready;

use base::Nanos;
use load::{Distribution, Random};

use super::{ScanCosts, Waiting};
use crate::{Histogram, Level};

/// Whose queues they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// Each core has one, and items go to one of them by lot (scale-out).
    Own,
    /// Any core takes from any (scale-up).
    Shared,
}

impl Queues {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Own, Self::Shared];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "scale_out",
            Self::Shared => "scale_up",
        }
    }
}

/// Cores and their load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Cores.
    pub cores: u32,
    /// Whose queues they are.
    pub queues: Queues,
    /// How cores learn that there is something.
    pub waiting: Waiting,
    /// Items a second in all (Poisson).
    pub rate: f64,
    /// How their work is distributed.
    pub service: Distribution,
    /// Its mean.
    pub work: Nanos,
    /// The share of items that take longer.
    pub hiccup_share: f64,
    /// By how much.
    pub hiccup: Nanos,
    /// Queues of a shared ready set: items of a flow are in the same one, in order. By polling
    /// there is one.
    pub flows: u32,
    /// Items that a core takes at once, at most.
    pub burst: u32,
    /// Items that wait for a core, at most: with shared queues this many for each core, wherever
    /// they are.
    pub ring: u32,
    /// What looking and taking costs.
    pub costs: ScanCosts,
    /// Which end of their ranges.
    pub level: Level,
    /// Items that arrive.
    pub items: u64,
}

impl Default for Plan {
    /// Ten cores of which each can do 6 M items a second, without hiccups, at half of that.
    fn default() -> Self {
        Self {
            cores: 10,
            queues: Queues::Own,
            waiting: Waiting::Polling,
            rate: 30e6,
            service: Distribution::Constant,
            work: Nanos(160),
            hiccup_share: 0.0,
            hiccup: Nanos::from_micros(1),
            flows: 64,
            burst: 32,
            ring: 512,
            costs: ScanCosts::default(),
            level: Level::Median,
            items: 200_000,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// From an item's arrival to the end of its work.
    pub latency: Histogram,
    /// Items that arrived.
    pub offered: u64,
    /// Items done; all that were not dropped.
    pub delivered: u64,
    /// Items that found no room.
    pub dropped: u64,
    /// From the first arrival to the last item's end.
    pub elapsed: Nanos,
    /// When the last item arrived.
    pub last_arrival: Nanos,
    /// The longest work of an item.
    pub longest: Nanos,
    /// Turns at the lock that found nothing.
    pub empty_turns: u64,
}

impl Outcome {
    /// Items a second.
    pub fn throughput(&self) -> f64 {
        self.delivered as f64 / self.elapsed.as_secs_f64()
    }

    /// Whether more came than could be done: a hundredth or more was dropped, or the last item
    /// ended later than it came by a fiftieth of the whole time and the longest work. Then a
    /// latency says how long the queues are.
    pub fn is_saturated(&self) -> bool {
        let behind = self.elapsed.since(self.last_arrival);
        let passing = Nanos(self.last_arrival.0 / 50) + self.longest;
        self.dropped * 100 > self.offered || behind > passing
    }
}

/// Runs a plan. Numbers that make no sense are taken to the nearest that do.
pub fn run(plan: &Plan, seed: u64) -> Outcome {
    let (cores, burst) = (plan.cores.max(1), plan.burst.max(1));
    let (flows, ring, rate) = (plan.flows.max(1), plan.ring.max(1), plan.rate.max(1e-3));
    let plan = Plan { cores, burst, flows, ring, rate, ..*plan };
    let mut items = Items::new(plan, seed);
    let mut outcome = match (plan.queues, plan.waiting) {
        (Queues::Own, _) => own::run(&plan, &mut items),
        (Queues::Shared, Waiting::Polling) => shared_lock::run(&plan, &mut items),
        (Queues::Shared, Waiting::ReadySet) => shared_ready::run(&plan, &mut items),
    };
    outcome.offered = plan.items;
    (outcome.last_arrival, outcome.longest) = (Nanos(items.at.round() as u64), items.longest);
    outcome
}

/// Something to be done.
#[derive(Clone, Copy, Debug)]
struct Item {
    arrived: Nanos,
    work: Nanos,
    /// To which queue it goes, by the remainder.
    lot: u32,
}

/// All that arrives, in order: the same for every way to serve it.
struct Items {
    plan: Plan,
    random: Random,
    left: u64,
    at: f64,
    longest: Nanos,
    next: Option<Item>,
}

impl Items {
    fn new(plan: Plan, seed: u64) -> Self {
        let random = Random::new(seed);
        let mut items =
            Self { plan, random, left: plan.items, at: 0.0, longest: Nanos::ZERO, next: None };
        items.draw();
        items
    }

    /// When the next one arrives; nothing after the last.
    fn next_at(&self) -> Option<Nanos> {
        self.next.map(|item| item.arrived)
    }

    /// The next one, if it has arrived by then.
    fn by(&mut self, now: Nanos) -> Option<Item> {
        let item = self.next.filter(|item| item.arrived <= now)?;
        self.draw();
        Some(item)
    }

    /// The next one, whenever it arrives.
    fn take(&mut self) -> Option<Item> {
        self.by(Nanos::FAR_FUTURE)
    }

    fn draw(&mut self) {
        self.next = None;
        if self.left > 0 {
            self.left -= 1;
            let Plan { rate, service, work, hiccup_share, hiccup, .. } = self.plan;
            self.at += 1e9 / rate * self.random.exponential();
            let usual = Nanos(service.sample(work.0, &mut self.random));
            let hiccups = self.random.unit() <= hiccup_share;
            let work = if hiccups { usual + hiccup } else { usual };
            self.longest = self.longest.max(work);
            let lot = self.random.bits() as u32;
            self.next = Some(Item { arrived: Nanos(self.at.round() as u64), work, lot });
        }
    }
}

#[cfg(test)]
mod tests;
