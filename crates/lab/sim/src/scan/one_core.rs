//! One core that serves many queues: it polls them in turn, or asks a ready set.
//!
//! Empty rounds are not played: how far the core has come when the next item arrives is worked out.
//! So a run costs as much as its items, however many queues there are.

mod core;
mod ready;

use base::Nanos;

use self::core::Core;
use super::{ScanCosts, Waiting};
use crate::{Histogram, Level};

/// Items left over that say nothing: a queue of that length comes and goes.
const PASSING: u64 = 64;

/// What comes in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Feed {
    /// This many items a second in all, independent of each other (Poisson).
    Rate(f64),
    /// The queues with traffic always have something: what is delivered then is the most that can
    /// be.
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
    /// Items to deliver; a run ends before that when twenty times as many have come.
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
    /// Items that arrived; queues that always have something offer what is taken.
    pub offered: u64,
    /// Items done.
    pub delivered: u64,
    /// Items that found their queue full.
    pub dropped: u64,
    /// The whole time, in nanoseconds; as are the next three, which make it up.
    pub elapsed_ns: f64,
    /// On items: getting at them, taking them out, their work.
    pub useful_ns: f64,
    /// Of that their work alone.
    pub work_ns: f64,
    /// Looking at empty queues, and falling asleep and waking.
    pub useless_ns: f64,
    /// Without any instruction.
    pub asleep_ns: f64,
    /// Looks at queues, or at the ready set, that found nothing.
    pub empty_looks: f64,
    /// What the senders' marks have cost them, in nanoseconds.
    pub marks_ns: f64,
    /// Instructions on items.
    pub useful_instructions: f64,
    /// Instructions of looks that found nothing.
    pub useless_instructions: f64,
    /// Cycles in which instructions were executed.
    pub cycles: f64,
}

impl Outcome {
    /// Items a second.
    pub fn throughput(&self) -> f64 {
        self.delivered as f64 / self.elapsed_ns * 1e9
    }

    /// Whether more came than could be done: a hundredth or more of it was dropped or is left. Then
    /// a latency says how long the queues are.
    pub fn is_saturated(&self) -> bool {
        let undone = self.offered.saturating_sub(self.delivered);
        undone > PASSING && undone * 100 > self.offered
    }

    /// The share of the time that the core was awake and not in the work of an item: the polling
    /// tax. That is what empty looks take, and what it takes to find an item and to take it
    /// out.
    pub fn tax(&self) -> f64 {
        (self.useful_ns + self.useless_ns - self.work_ns) / self.elapsed_ns
    }

    /// Empty looks for each item.
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
    let (burst, ring) = (plan.burst.max(1), plan.ring.max(1));
    Core::new(Plan { queues, busy_queues, burst, ring, ..*plan }, seed).run()
}

#[cfg(test)]
mod tests;
