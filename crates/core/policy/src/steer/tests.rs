//! What each policy does to 700,000 flows when workers come, go and come back.

use base::{FlowGroup, FlowHash, Nanos, WorkerId};

use super::*;
use crate::quality::{max_over_mean, moved_share, settle, shared_group_share, touch_all};
use crate::sample::GroupLoad;
use crate::{Control, ControlConfig, CoreSample, Plan};

const GROUPS: u32 = 1 << 20;
const SEED: u64 = 0x00ca_1150;

/// A control loop with its tables, 700 k random flows and `count` workers.
struct Harness {
    control: Control,
    live: OwnerTable,
    shadow: OwnerTable,
    flows: Vec<FlowHash>,
}

fn ids(workers: impl IntoIterator<Item = u16>) -> Vec<WorkerId> {
    workers.into_iter().map(WorkerId).collect()
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Harness {
    fn new(policy: &str, groups: u32, flows: usize, workers: u16) -> Self {
        println!("seed {SEED:#x}");
        let mut state = SEED;
        let steer = by_name(policy, SteerConfig { groups: groups as usize, seed: SEED })
            .expect("the test names a policy that exists");
        let table = OwnerTable::new(groups, 0).expect("the test uses a power of two");
        let mut harness = Self {
            control: Control::new(ControlConfig::default(), steer, table.len()),
            shadow: table.clone(),
            live: table,
            flows: (0..flows).map(|_| FlowHash(splitmix(&mut state) as u32)).collect(),
        };
        harness.workers(ids(0..workers));
        harness.touch();
        harness
    }

    fn touch(&mut self) {
        touch_all(&mut self.control, &mut self.live, &mut self.shadow, &self.flows);
    }

    /// Changes the workers; returns the share of flows moved and the balance afterwards.
    fn workers(&mut self, workers: Vec<WorkerId>) -> (f64, f64) {
        let before = self.live.clone();
        self.control.set_workers(&workers);
        settle(&mut self.control, &mut self.live, &mut self.shadow, Nanos::ZERO);
        let moved = moved_share(&before, &self.live, &self.flows);
        (moved, max_over_mean(&self.live, &self.flows, &workers))
    }
}

#[test]
fn modulo_moves_nearly_every_flow_when_one_worker_comes() {
    for (workers, expected) in [(4, 0.80), (9, 0.90)] {
        let mut harness = Harness::new("modulo", GROUPS, 700_000, workers);
        let (moved, balance) = harness.workers(ids(0..=workers));
        assert!((moved - expected).abs() < 0.01, "{workers} -> +1: {moved}");
        assert!(balance < 1.02, "{balance}");
    }
}

#[test]
fn listing3_gives_the_first_worker_one_flow_and_the_others_all_the_rest_in_turn() {
    let mut steer = by_name("listing3", SteerConfig { groups: 128, seed: 1 }).expect("listed");
    let workers = Workers::of(&ids(0..4));
    let order: Vec<u16> =
        (0..8).map(|group| steer.place(FlowGroup(group), &workers, Nanos::ZERO).0).collect();
    assert_eq!(order, [0, 1, 2, 3, 1, 2, 3, 1]);
    let alone = Workers::of(&ids(2..3));
    assert_eq!(steer.place(FlowGroup(9), &alone, Nanos::ZERO), WorkerId(2));
}

#[test]
fn sticky_moves_the_least_that_restores_balance() {
    for (workers, ideal) in [(1, 0.5), (2, 1.0 / 3.0), (4, 0.20), (9, 0.10)] {
        for policy in ["sticky", "prefilled", "balanced"] {
            let mut harness = Harness::new(policy, GROUPS, 700_000, workers);
            let (moved, balance) = harness.workers(ids(0..=workers));
            assert!(moved <= 1.05 * ideal, "{policy} {workers} -> +1: {moved}");
            assert!(moved >= 0.95 * ideal, "{policy} gave the new worker too little: {moved}");
            assert!(balance <= 1.02, "{policy}: {balance}");
        }
    }
}

#[test]
fn calisto_moves_nothing_on_growth_and_so_gives_the_new_worker_nothing() {
    for policy in ["calisto", "least_loaded"] {
        let mut harness = Harness::new(policy, GROUPS, 700_000, 4);
        let (moved, balance) = harness.workers(ids(0..5));
        assert_eq!(moved, 0.0, "{policy}");
        assert!((balance - 1.25).abs() < 0.02, "{policy}: {balance}");
    }
}

#[test]
fn a_worker_that_returns_finds_its_flows_again() {
    for policy in ["sticky", "prefilled", "balanced", "modulo"] {
        let mut harness = Harness::new(policy, 1 << 14, 100_000, 5);
        let before = harness.live.clone();
        harness.workers(ids([0, 1, 3, 4]));
        let (_, balance) = harness.workers(ids(0..5));
        let displaced = moved_share(&before, &harness.live, &harness.flows);
        assert_eq!(
            displaced, 0.0,
            "{policy}: Shenango's swap-remove leaves 40 % displaced for good"
        );
        assert!(balance < 1.1, "{policy}: {balance}");
    }
}

#[test]
fn a_worker_that_leaves_takes_only_its_own_flows_along() {
    let mut harness = Harness::new("sticky", GROUPS, 700_000, 5);
    let (moved, balance) = harness.workers(ids([0, 1, 3, 4]));
    assert!((moved - 0.2).abs() < 0.005, "{moved}");
    assert!(balance < 1.02, "{balance}");
    assert!(harness.control.is_drained(WorkerId(2)));
}

#[test]
fn several_that_leave_at_once_take_only_their_own_flows_along_and_none_moves_twice() {
    for stays in [1, 2, 3] {
        let mut harness = Harness::new("sticky", GROUPS, 700_000, 10);
        let least = 1.0 - f64::from(stays) / 10.0;
        let (moved, balance) = harness.workers(ids(0..stays));
        assert!(moved <= 1.02 * least, "10 -> {stays}: {moved}");
        assert!(balance < 1.02, "10 -> {stays}: {balance}");
        // Leaving one by one would move nearly twice as many.
        let mut slow = Harness::new("sticky", GROUPS, 700_000, 10);
        let all: f64 = (stays..10).rev().map(|workers| slow.workers(ids(0..workers)).0).sum();
        assert!(all > 1.3 * moved, "10 -> {stays}: {all}");
    }
}

#[test]
fn shenangos_example_four_flows_change_core_under_modulo_and_stay_under_calisto() {
    let owners = |harness: &Harness| -> Vec<u16> {
        let owner = |hash| harness.live.entry(harness.live.group_of(FlowHash(hash))).owner();
        (4..8).map(|hash| owner(hash).expect("it has sent a packet").0).collect()
    };
    for (policy, after) in [("modulo", vec![4, 0, 1, 2]), ("calisto", vec![0, 1, 2, 3])] {
        let mut harness = Harness::new(policy, 128, 0, 4);
        harness.flows = (3..8).map(FlowHash).collect();
        harness.touch();
        let before = owners(&harness);
        if policy == "modulo" {
            assert_eq!(before, [0, 1, 2, 3]);
        }
        harness.workers(ids(0..5));
        let expected = if policy == "modulo" { after } else { before };
        assert_eq!(owners(&harness), expected, "{policy}");
    }
}

#[test]
fn hybrid_moves_cold_groups_like_modulo_and_warm_ones_like_sticky() {
    let warm = |harness: &mut Harness| {
        for first in (0..1_u32 << 14).step_by(4096) {
            let groups = vec![GroupLoad { packets: 5, idle: Nanos::ZERO }; 4096];
            let load = LoadSample { now: Nanos::ZERO, first: FlowGroup(first), groups };
            let core = CoreSample::default();
            let mut plan = Plan::default();
            harness.control.tick(
                &core,
                Some(&load),
                &mut harness.live,
                &mut harness.shadow,
                &mut plan,
            );
        }
    };
    let mut cold = Harness::new("hybrid", 1 << 14, 100_000, 4);
    assert!((cold.workers(ids(0..5)).0 - 0.8).abs() < 0.02);
    let mut repeated = Harness::new("hybrid", 1 << 14, 100_000, 4);
    warm(&mut repeated);
    assert!((repeated.workers(ids(0..5)).0 - 0.2).abs() < 0.02);
}

#[test]
fn least_loaded_avoids_the_delayed_worker() {
    let steer = by_name("least_loaded", SteerConfig { groups: 128, seed: SEED }).expect("exists");
    let table = OwnerTable::new(1 << 14, 0).expect("possible");
    let mut control = Control::new(ControlConfig::default(), steer, table.len());
    let (mut live, mut shadow) = (table.clone(), table);
    control.set_workers(&ids(0..4));
    let slow = |id: u16| crate::WorkerSample {
        id: WorkerId(id),
        queued: 0,
        delay: if id == 2 { Nanos::from_millis(1) } else { Nanos::ZERO },
    };
    let core = CoreSample { now: Nanos::ZERO, workers: (0..4).map(slow).collect() };
    control.tick(&core, None, &mut live, &mut shadow, &mut Plan::default());
    let flows: Vec<FlowHash> = (0..1 << 14).map(FlowHash).collect();
    touch_all(&mut control, &mut live, &mut shadow, &flows);
    // Only a draw of the slow worker twice gives it a group: 1 in 16.
    let share = f64::from(control.owned(WorkerId(2))) / f64::from(1 << 14);
    assert!((share - 1.0 / 16.0).abs() < 0.02, "{share}");
}

#[test]
fn balanced_evens_a_skewed_load_out_and_then_rests() {
    let groups = 1 << 12;
    let mut harness = Harness::new("balanced", groups, 0, 4);
    harness.flows = (0..groups).map(FlowHash).collect();
    harness.touch();
    // Zipf over the groups, and the heaviest of them all on worker 0.
    let packets = |group: u32| {
        let rank =
            if harness.live.entry(FlowGroup(group)).owner() == Some(WorkerId(0)) { 1 } else { 4 };
        40_000 / (rank * (group / 4 + 8))
    };
    let weights: Vec<u32> = (0..groups).map(packets).collect();
    let imbalance = |live: &OwnerTable| {
        let mut loads = [0_u64; 4];
        for (group, weight) in (0..).zip(&weights) {
            let owner = live.entry(FlowGroup(group)).owner().expect("every group has sent");
            loads[owner.index()] += u64::from(*weight);
        }
        *loads.iter().max().expect("four") as f64 * 4.0 / loads.iter().sum::<u64>() as f64
    };
    assert!(imbalance(&harness.live) > 1.5, "the test needs a skew");
    let mut moves_of_pass = Vec::new();
    for pass in 0..40_u64 {
        let seen =
            weights.iter().map(|&packets| GroupLoad { packets, idle: Nanos::ZERO }).collect();
        let load = LoadSample { now: Nanos(pass), first: FlowGroup(0), groups: seen };
        let mut plan = Plan::default();
        let core = CoreSample { now: Nanos(pass), workers: Vec::new() };
        harness.control.tick(&core, Some(&load), &mut harness.live, &mut harness.shadow, &mut plan);
        moves_of_pass.push(plan.moves.len());
        for &done in &plan.moves {
            harness.control.moved(done, &mut harness.live);
        }
    }
    assert!(imbalance(&harness.live) < 1.07, "{}", imbalance(&harness.live));
    assert_eq!(moves_of_pass[20..].iter().sum::<usize>(), 0, "ping-pong: {moves_of_pass:?}");
}

#[test]
fn switching_policy_keeps_every_owner_that_the_new_policy_can_keep() {
    for (policy, keeps) in [
        ("sticky", true),
        ("calisto", true),
        ("balanced", true),
        ("least_loaded", true),
        ("hybrid", true),
        ("shared", true),
        ("modulo", false),
    ] {
        let mut harness = Harness::new("calisto", 1 << 14, 100_000, 4);
        let before = harness.live.clone();
        let config = SteerConfig { groups: harness.live.len(), seed: SEED };
        harness.control.set_policy(by_name(policy, config).expect("exists"));
        settle(&mut harness.control, &mut harness.live, &mut harness.shadow, Nanos::ZERO);
        let moved = moved_share(&before, &harness.live, &harness.flows);
        assert_eq!(moved == 0.0, keeps, "{policy}: {moved}");
        assert_eq!(harness.control.policy(), policy);
    }
}

#[test]
fn prefilled_owns_every_group_before_the_first_packet() {
    let harness = Harness::new("prefilled", 1 << 10, 0, 3);
    assert!(harness.live.entries().iter().all(|entry| entry.plain().is_some()));
}

#[test]
fn a_million_groups_share_fewer_flows_than_a_thousand() {
    let harness = Harness::new("sticky", GROUPS, 700_000, 4);
    let million = shared_group_share(GROUPS, &harness.flows);
    // Poisson: a flow shares its group with probability 1 - exp(-700,000 / 2^20).
    assert!((million - 0.487).abs() < 0.005, "{million}");
    assert!(shared_group_share(1 << 10, &harness.flows) > 0.999);
}

#[test]
fn an_unknown_policy_is_refused_with_the_names_there_are() {
    let error =
        by_name("stiky", SteerConfig { groups: 128, seed: 1 }).err().expect("no such policy");
    for (name, help) in NAMES {
        assert!(error.to_string().contains(name) && !help.is_empty());
        assert_eq!(
            by_name(name, SteerConfig { groups: 128, seed: 1 }).expect("listed").name(),
            name
        );
    }
}

#[test]
fn two_workers_that_leave_and_return_one_after_the_other_find_all_their_flows_again() {
    let mut harness = Harness::new("sticky", 1 << 14, 100_000, 5);
    let before = harness.live.clone();
    for workers in [0..4, 0..3, 0..4, 0..5] {
        harness.workers(ids(workers));
    }
    assert_eq!(moved_share(&before, &harness.live, &harness.flows), 0.0);
}

#[test]
fn a_hundred_workers_and_one_more_share_as_evenly_as_four_and_one_more() {
    for workers in [128, 1000] {
        let mut harness = Harness::new("sticky", 1 << 16, 0, workers);
        harness.flows = (0..1 << 16).map(FlowHash).collect();
        harness.touch();
        let (moved, balance) = harness.workers(ids(0..=workers));
        let ideal = 1.0 / f64::from(workers + 1);
        assert!(moved <= 1.05 * ideal, "{workers}: {moved}");
        assert!(balance <= 1.02, "{workers}: {balance}");
    }
}

/// One slice of load for `harness`, and the moves that it led to, carried out.
fn observe(harness: &mut Harness, first: u32, groups: Vec<GroupLoad>) -> usize {
    let load = LoadSample { now: Nanos::ZERO, first: FlowGroup(first), groups };
    let mut plan = Plan::default();
    let Harness { control, live, shadow, .. } = harness;
    control.tick(&CoreSample::default(), Some(&load), live, shadow, &mut plan);
    for &done in &plan.moves {
        control.moved(done, live);
    }
    plan.moves.len()
}

#[test]
fn balanced_does_not_take_chance_for_imbalance() {
    // The last two never reach a measurement's full count: there only the allowance helps.
    for (workers, packets) in [(4, 2_000), (4, 10_000), (64, 50_000), (16, 200), (64, 500)] {
        let mut harness = Harness::new("balanced", 4096, 0, workers);
        harness.flows = (0..4096).map(FlowHash).collect();
        harness.touch();
        let mut state = SEED;
        let mut moves = 0;
        for _ in 0..1_000 {
            let mut groups = vec![GroupLoad { packets: 0, idle: Nanos::ZERO }; 4096];
            for _ in 0..packets {
                groups[(splitmix(&mut state) % 4096) as usize].packets += 1;
            }
            moves += observe(&mut harness, 0, groups);
        }
        assert_eq!(moves, 0, "{workers} workers, {packets} packets a pass, evenly at random");
    }
}

#[test]
fn balanced_finds_in_many_sparse_passes_what_no_single_one_could_show() {
    let mut harness = Harness::new("balanced", 4096, 0, 4);
    harness.flows = (0..4096).map(FlowHash).collect();
    harness.touch();
    // Worker 0 gets 128 packets a pass and the others 96 each: three standard deviations, chance.
    let mut moves = 0;
    for pass in 0..80 {
        let packets = |group: u32| {
            let owner = harness.live.entry(FlowGroup(group)).owner();
            let rank = (group + pass) / 4 % 1024;
            u32::from(rank < if owner == Some(WorkerId(0)) { 128 } else { 96 })
        };
        let load = |group| GroupLoad { packets: packets(group), idle: Nanos::ZERO };
        let groups = (0..4096).map(load).collect();
        moves += observe(&mut harness, 0, groups);
        assert!(moves == 0 || pass >= 64, "a decision on {pass} passes is a guess");
    }
    assert!(moves > 0, "after 64 passes it is beyond doubt");
}

#[test]
fn balanced_never_takes_more_from_a_worker_than_it_has_above_the_mean() {
    let mut harness = Harness::new("balanced", 256, 0, 4);
    harness.flows = (0..256).map(FlowHash).collect();
    harness.touch();
    let start = harness.live.clone();
    let weight = |group: u32| {
        let heavy = start.entry(FlowGroup(group)).owner() == Some(WorkerId(0));
        if heavy { 48 } else { 40 }
    };
    let mut moves = Vec::new();
    for _ in 0..40 {
        let load = |group| GroupLoad { packets: weight(group), idle: Nanos::ZERO };
        let groups = (0..256).map(load).collect();
        moves.push(observe(&mut harness, 0, groups));
        let mut loads = [0_u32; 4];
        for group in 0..256 {
            let owner = harness.live.entry(FlowGroup(group)).owner().expect("all have sent");
            loads[owner.index()] += weight(group);
        }
        let mean = loads.iter().sum::<u32>() / 4;
        assert!(loads[0] + 48 >= mean, "worker 0 gave more than it had too much: {loads:?}");
    }
    // 384 packets above the mean, 48 a group; one group stays where a move would overshoot.
    assert!((5..=8).contains(&moves.iter().sum::<usize>()), "{moves:?}");
}

#[test]
fn balanced_takes_half_a_pass_for_no_measurement() {
    let mut harness = Harness::new("balanced", 8192, 0, 4);
    harness.flows = (0..8192).map(FlowHash).collect();
    harness.touch();
    // Even over the whole table, uneven in each half.
    let half = |harness: &Harness, first: u32| -> Vec<GroupLoad> {
        let packets = |group| {
            let owner = harness.live.entry(FlowGroup(group)).owner().expect("all have sent");
            if (owner.0 < 2) == (first == 0) { 20 } else { 2 }
        };
        let load = |group| GroupLoad { packets: packets(group), idle: Nanos::ZERO };
        (first..first + 4096).map(load).collect()
    };
    for first in [4096, 0, 4096, 0, 4096, 4096, 0, 0, 4096] {
        let groups = half(&harness, first);
        assert_eq!(observe(&mut harness, first, groups), 0);
    }
}

#[test]
fn a_slip_in_a_policys_name_is_answered_with_the_right_one() {
    let config = SteerConfig { groups: 128, seed: 1 };
    let suggestion = |name: &str| by_name(name, config).err().expect("no such policy").suggestion();
    assert_eq!(suggestion("stiky"), Some("sticky"));
    assert_eq!(suggestion("least-loaded"), Some("least_loaded"));
    assert_eq!(suggestion("calypso"), None);
    assert_eq!(suggestion(""), None);
    assert_eq!(suggestion(&"sticky".repeat(1_000_000)), None);
}
