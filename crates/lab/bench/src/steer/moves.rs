//! How many flows change worker when one more comes, how even the load is then, and how many
//! flows share a group. No clock: the tables alone.

use base::{FlowGroup, FlowHash, Nanos, WorkerId};
use policy::quality::{max_over_mean, moved_share, settle, shared_group_share, touch_all};
use policy::sample::GROUPS_PER_STEP;
use policy::steer::NAMES;
use policy::{Control, CoreSample, GroupLoad, LoadSample, OwnerTable, Plan as Moves};

use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::{FLOWS, SEED, hashes};
use crate::report::Report;
use crate::rig::control;

/// A policy, and whether its groups have repeated before the worker comes.
#[derive(Clone, Copy)]
struct Variant {
    policy: &'static str,
    warm: bool,
}

impl Variant {
    fn name(self) -> String {
        let Self { policy, warm } = self;
        if warm { format!("{policy} (warm)") } else { policy.to_owned() }
    }

    /// What the issue asks for.
    fn target(self, ideal: f64) -> Option<Target> {
        match self.policy {
            "modulo" => Some(Target::Near(100.0 * (1.0 - ideal), 1.0)),
            "sticky" => Some(Target::RatioAtMost(1.05)),
            "calisto" => Some(Target::AtMost(0.0)),
            _ => None,
        }
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let count = plan.pick(FLOWS, FLOWS / 20);
    let groups: u32 = plan.pick(1 << 20, 1 << 16);
    report.begin(
        "moves",
        &format!(
            "{count} random IPv4 UDP flows, hashed by our keyed Toeplitz, over {groups} groups; \
             every flow has sent one packet when the worker comes; another seed each round, no \
             traffic. Balance is the flows of the fullest worker over the mean."
        ),
    )?;
    let flows: Vec<Vec<FlowHash>> =
        (0..plan.rounds).map(|round| hashes(count, SEED + u64::from(round))).collect();
    let shared: Vec<f64> =
        flows.iter().map(|flows| 100.0 * shared_group_share(groups, flows)).collect();
    for (policy, _) in NAMES {
        report.progress(policy);
        if policy == "shared" {
            let why = "shared reads no table: any worker takes any packet, every flow shares";
            report.figure(Figure::missing("shared", why))?;
            continue;
        }
        for warm in [false, true] {
            // Only this policy treats repeating groups differently.
            if warm && policy != "hybrid" {
                continue;
            }
            let variant = Variant { policy, warm };
            for before in [4, 9] {
                one(variant, before, groups, &flows, report)?;
            }
        }
        let metric = format!("{policy} flows that share a group");
        report.figure(Figure::new(metric, "%", &shared))?;
    }
    Ok(())
}

/// One policy, from `before` workers to one more.
fn one(
    variant: Variant,
    before: u16,
    groups: u32,
    flows: &[Vec<FlowHash>],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let ideal = 1.0 / f64::from(before + 1);
    let (mut moved, mut balance) = (Vec::new(), Vec::new());
    for flows in flows {
        let (share, evenness) = grow(variant, before, groups, flows)?;
        moved.push(100.0 * share);
        balance.push(evenness);
    }
    let name = format!("{} {before}->{}", variant.name(), before + 1);
    let ideals = vec![100.0 * ideal; moved.len()];
    let figure = Figure::new(format!("{name} moved"), "%", &moved);
    report.figure(figure.against("ideal", &moved, &ideals).target(variant.target(ideal)))?;
    report.figure(Figure::new(format!("{name} max/mean load"), "", &balance))
}

/// The share of flows that move and the balance afterwards.
fn grow(
    variant: Variant,
    before: u16,
    groups: u32,
    flows: &[FlowHash],
) -> Result<(f64, f64), Error> {
    let mut live = OwnerTable::new(groups, 0).or_needs("owner table")?;
    let mut shadow = live.clone();
    let mut control = control(variant.policy, live.len())?;
    let ids = |count: u16| (0..count).map(WorkerId).collect::<Vec<_>>();
    control.set_workers(&ids(before));
    settle(&mut control, &mut live, &mut shadow, Nanos::ZERO);
    touch_all(&mut control, &mut live, &mut shadow, flows);
    if variant.warm {
        repeat(&mut control, &mut live, &mut shadow);
    }
    let old = live.clone();
    let workers = ids(before + 1);
    control.set_workers(&workers);
    settle(&mut control, &mut live, &mut shadow, Nanos::ZERO);
    Ok((moved_share(&old, &live, flows), max_over_mean(&live, flows, &workers)))
}

/// Shows the policy that every group has sent several packets.
fn repeat(control: &mut Control, live: &mut OwnerTable, shadow: &mut OwnerTable) {
    for first in (0..live.len()).step_by(GROUPS_PER_STEP) {
        let slice = GROUPS_PER_STEP.min(live.len() - first);
        let groups = vec![GroupLoad { packets: 5, idle: Nanos::ZERO }; slice];
        let load = LoadSample { now: Nanos::ZERO, first: FlowGroup(first as u32), groups };
        let mut moves = Moves::default();
        control.tick(&CoreSample::default(), Some(&load), live, shadow, &mut moves);
    }
}
