//! Scale-out: each core has a queue.

use std::collections::VecDeque;

use base::Nanos;

use super::{Items, Outcome, Plan};
use crate::scan::Waiting;

/// What waits for a core, as the times at which each is done, and so when the core is free.
#[derive(Clone, Default)]
struct Core {
    ends: VecDeque<Nanos>,
    free: Nanos,
}

pub(super) fn run(plan: &Plan, items: &mut Items) -> Outcome {
    let (costs, level) = (&plan.costs, plan.level);
    // The first item after a while comes from the sender's core; the others come ahead.
    let from_idle = match plan.waiting {
        Waiting::Polling => costs.fetch,
        Waiting::ReadySet => costs.fetch.plus(costs.notice),
    };
    let (from_idle, each) = (from_idle.nanos(level), costs.item.nanos(level));
    let mut cores = vec![Core::default(); plan.cores as usize];
    let mut outcome = Outcome::default();
    while let Some(item) = items.take() {
        let now = item.arrived;
        let core = &mut cores[(item.lot % plan.cores) as usize];
        while core.ends.front().is_some_and(|end| *end <= now) {
            core.ends.pop_front();
        }
        if core.ends.len() >= plan.ring as usize {
            outcome.dropped += 1;
            continue;
        }
        let begin = if core.free <= now { now + from_idle } else { core.free };
        core.free = begin + each + item.work;
        core.ends.push_back(core.free);
        outcome.delivered += 1;
        outcome.latency.record(core.free.since(now));
        outcome.elapsed = outcome.elapsed.max(core.free);
    }
    outcome
}
