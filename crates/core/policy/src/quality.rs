//! How good a table is: the measures that benchmarks and the demo print.

use base::{FlowHash, Nanos, WorkerId};

use crate::control::Control;
use crate::plan::Plan;
use crate::sample::CoreSample;
use crate::table::OwnerTable;

/// Share of flows whose owner differs between two tables, 0 to 1.
pub fn moved_share(before: &OwnerTable, after: &OwnerTable, flows: &[FlowHash]) -> f64 {
    let owner = |table: &OwnerTable, hash| table.entry(table.group_of(hash)).owner();
    let moved = flows.iter().filter(|&&hash| owner(before, hash) != owner(after, hash)).count();
    moved as f64 / flows.len().max(1) as f64
}

/// Flows of the fullest worker over the mean of `workers`; 1 is perfect balance.
pub fn max_over_mean(table: &OwnerTable, flows: &[FlowHash], workers: &[WorkerId]) -> f64 {
    let mut counts = vec![0_u64; usize::from(WorkerId::LIMIT)];
    for &hash in flows {
        if let Some(worker) = table.entry(table.group_of(hash)).owner() {
            counts[worker.index()] += 1;
        }
    }
    let most = workers.iter().map(|worker| counts[worker.index()]).max().unwrap_or(0);
    most as f64 * workers.len() as f64 / flows.len().max(1) as f64
}

/// Share of flows that share their group with another flow: what a table of groups gives away
/// against a table of flows, 0 to 1.
pub fn shared_group_share(groups: u32, flows: &[FlowHash]) -> f64 {
    let mut counts = vec![0_u32; groups as usize];
    let group = |hash: FlowHash| (hash.0 & (groups - 1)) as usize;
    flows.iter().for_each(|&hash| counts[group(hash)] += 1);
    let shared = flows.iter().filter(|&&hash| counts[group(hash)] > 1).count();
    shared as f64 / flows.len().max(1) as f64
}

/// Carries out whatever `control` wants, every hand-over succeeding at once, until it is settled:
/// the policy seen without its shell. Returns the ticks that it took.
///
/// # Panics
/// When it does not settle in a hundred thousand ticks: a policy that never rests is broken.
pub fn settle(
    control: &mut Control,
    live: &mut OwnerTable,
    shadow: &mut OwnerTable,
    now: Nanos,
) -> u32 {
    let mut plan = Plan::default();
    for tick in 0..100_000 {
        if control.is_settled() {
            return tick;
        }
        let now = now + Nanos::from_micros(u64::from(tick) * 100);
        let core = CoreSample { now, workers: Vec::new() };
        control.tick(&core, None, live, shadow, &mut plan);
        for &done in &plan.moves {
            control.moved(done, live);
        }
        if plan.publish {
            std::mem::swap(live, shadow);
            control.epoch_finished();
        }
    }
    panic!("the policy {} does not come to rest", control.policy());
}

/// Lets every flow send one packet: places the groups that have no owner.
pub fn touch_all(
    control: &mut Control,
    live: &mut OwnerTable,
    shadow: &mut OwnerTable,
    flows: &[FlowHash],
) {
    for &hash in flows {
        let group = live.group_of(hash);
        if live.entry(group).plain().is_none() {
            let _ = control.place(group, live, shadow, Nanos::ZERO);
        }
    }
}
