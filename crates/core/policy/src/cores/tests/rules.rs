//! When each policy asks, and when it does not.

use super::*;

#[test]
fn an_item_that_was_there_a_tick_ago_and_still_is_makes_an_application_congested() {
    // What was put in and taken out at two ticks, and whether something stands.
    let cases = [
        ([10, 10], [10, 10], false),
        ([10, 5], [20, 10], false),
        ([10, 5], [20, 9], true),
        ([10, 5], [10, 5], true),
        ([u32::MAX, u32::MAX - 3], [4, u32::MAX], false),
        ([u32::MAX, u32::MAX - 3], [4, u32::MAX - 1], true),
        ([2, u32::MAX], [9, 1], true),
        ([2, u32::MAX], [9, 2], false),
    ];
    for (before, now, congested) in cases {
        for tasks in [false, true] {
            let mut harness = Harness::new("queue_delay", 4);
            harness.app(terms(0, 1, 4), 0, 4);
            harness.start(0, 1);
            let sample = |[put, taken]: [u32; 2]| {
                let mut sample = busy(0, put, taken);
                if tasks {
                    std::mem::swap(&mut sample.packets, &mut sample.tasks);
                }
                sample
            };
            assert!(harness.tick(&[sample(before)], &[]).is_empty(), "a first sample says nothing");
            let asked = !harness.tick(&[sample(now)], &[]).grants.is_empty();
            assert_eq!(asked, congested, "{before:?} then {now:?}, tasks: {tasks}");
        }
    }
}

#[test]
fn a_queue_delay_counts_the_age_of_the_oldest_item_alone() {
    let mut harness = Harness::new("queue_delay", 4);
    let delay = Nanos::from_micros(20);
    harness.app(AppTerms { queue_delay: delay, ..terms(0, 1, 4) }, 0, 4);
    harness.start(0, 1);
    let aged = |oldest| BusyWorker { oldest, ..busy(0, 10, 0) };
    assert!(harness.tick(&[aged(delay)], &[]).is_empty(), "it has just been woken");
    assert!(harness.tick(&[aged(Nanos(delay.0 - 1))], &[]).is_empty());
    assert_eq!(harness.tick(&[aged(delay)], &[]).grants, [hold(1, 1)]);
}

#[test]
fn a_worker_that_comes_back_is_not_judged_by_what_was_before_it_slept() {
    for delay in [Nanos::ZERO, Nanos::from_micros(20)] {
        let mut harness = Harness::new("queue_delay", 4);
        harness.app(AppTerms { queue_delay: delay, ..terms(0, 1, 4) }, 0, 4);
        harness.start(0, 1);
        let standing = BusyWorker { oldest: delay, ..busy(0, 10, 0) };
        harness.tick(&[busy(0, 10, 10)], &[]);
        harness.park(0);
        harness.start(0, 1);
        assert!(harness.tick(&[standing], &[]).is_empty(), "it waited before the worker could run");
        assert_eq!(harness.tick(&[standing], &[]).grants, [hold(1, 1)]);
    }
}

#[test]
fn the_worker_that_has_work_runs_before_the_one_whose_core_is_warm() {
    let mut harness = Harness::new("queue_delay", 4);
    harness.app(terms(0, 1, 4), 0, 4);
    harness.start(0, 3);
    for worker in [0, 1, 2] {
        harness.park(worker);
    }
    harness.control.prefer(WorkerId(0));
    assert_eq!(harness.tick(&[], &[0]).grants, [hold(0, 0)], "on its own core");
    assert_eq!(harness.tick(&[], &[0]).grants, [hold(2, 2)], "then the latest again");
    harness.control.prefer(WorkerId(2));
    assert_eq!(harness.tick(&[], &[0]).grants, [hold(1, 1)], "a running worker is not preferred");
}

#[test]
fn many_congested_workers_of_an_application_bring_it_one_core_a_tick() {
    let mut harness = Harness::new("queue_delay", 8);
    harness.app(terms(0, 2, 8), 0, 8);
    harness.start(0, 4);
    let all: Vec<BusyWorker> = (0..4).map(|worker| busy(worker, 9, 0)).collect();
    harness.tick(&all, &[]);
    assert_eq!(harness.tick(&all, &[0, 0]).grants.len(), 1);
    assert_eq!(harness.tick(&all, &[]).grants.len(), 1);
}

#[test]
fn an_application_that_forges_its_counters_gets_no_more_than_its_burst() {
    let mut harness = Harness::new("queue_delay", 8);
    harness.app(terms(0, 1, 3), 0, 8);
    harness.app(terms(1, 5, 5), 10, 5);
    for round in 0..100_u32 {
        let violation = |worker| busy(worker, round.wrapping_mul(0x9e37_79b9), !round);
        let violations: Vec<BusyWorker> = (0..16).map(violation).collect();
        harness.tick(&violations, &[0, 0, 4000, 65535]);
        assert!(harness.cores(0) <= 3);
    }
    harness.start(1, 5);
}

/// Ticks for `ms` milliseconds at which each worker in `0..` is idle for that share of the
/// time; the changes asked for, as (millisecond, cores before, cores after).
fn run_for(harness: &mut Harness, ms: u64, load_millis: u64) -> Vec<(u64, usize, usize)> {
    let mut changes = Vec::new();
    let mut idle: std::collections::BTreeMap<WorkerId, Nanos> = Default::default();
    for at in 0..ms {
        harness.now += Nanos::from_millis(1);
        let active = harness.control.table().app(AppId(0)).expect("it is there").active().to_vec();
        // The load spreads evenly.
        let idle_share = 1000_u64.saturating_sub(load_millis / active.len().max(1) as u64);
        let mut sample = CoresSample { now: harness.now, ..CoresSample::default() };
        for &id in &active {
            let total = idle.entry(id).or_default();
            *total += Nanos(idle_share * 1000);
            sample.busy.push(BusyWorker { idle: *total, ..busy(id.0, 0, 0) });
        }
        let before = harness.cores(0);
        harness.control.tick(&sample, &mut harness.plan);
        for park in harness.plan.parks.clone() {
            harness.park(park.worker.0);
        }
        if harness.cores(0) != before {
            changes.push((at, before, harness.cores(0)));
        }
    }
    changes
}

#[test]
fn utilisation_goes_up_below_a_fifth_of_a_core_idle_and_down_above_one_and_a_quarter() {
    // Load in thousandths of a core, cores at the start, cores at the end.
    for (load, start, end) in [
        (850, 1, 2),
        (790, 1, 1),
        (1750, 2, 2),
        (1850, 2, 3),
        (2700, 4, 3),
        (2700, 5, 3),
        (100, 4, 1),
        (3500, 1, 4),
    ] {
        let mut harness = Harness::new("utilisation", 8);
        harness.app(terms(0, 1, 8), 0, 8);
        harness.start(0, start);
        let changes = run_for(&mut harness, 3000, load);
        let expected = settle(load, start);
        assert_eq!(harness.cores(0), expected, "load {load} from {start}: {changes:?}");
        assert_eq!(expected, end, "the table of this test");
    }
}

/// Where the thresholds lead.
fn settle(load: u64, mut cores: usize) -> usize {
    loop {
        let idle = (1000 * cores as u64).saturating_sub(load);
        match idle {
            ..200 if cores < 8 => cores += 1,
            1251.. => cores -= 1,
            _ => return cores,
        }
    }
}

#[test]
fn utilisation_never_turns_back_at_the_same_load_and_waits_ten_looks_between_changes() {
    for load in (0..6000).step_by(130) {
        for start in [1, 4, 8] {
            let mut harness = Harness::new("utilisation", 8);
            harness.app(terms(0, 1, 8), 0, 8);
            harness.start(0, start);
            let changes = run_for(&mut harness, 2000, load);
            let ups = changes.iter().filter(|(_, before, after)| after > before).count();
            assert!(ups == 0 || ups == changes.len(), "load {load} from {start}: {changes:?}");
            for pair in changes.windows(2) {
                assert!(pair[1].0 - pair[0].0 >= 100, "load {load} from {start}: {changes:?}");
            }
        }
    }
}

#[test]
fn a_worker_that_claims_more_idle_time_than_has_passed_counts_as_idle_only() {
    let mut harness = Harness::new("utilisation", 4);
    harness.app(terms(0, 0, 4), 0, 4);
    harness.app(terms(1, 0, 4), 10, 4);
    harness.start(0, 2);
    for look in 0..300_u64 {
        harness.now += Nanos::from_millis(10);
        let forged = Nanos(look << 55);
        let sample = [BusyWorker { idle: forged, ..busy(0, 0, 0) }, busy(1, 0, 0)];
        harness.tick(&sample, &[]);
        assert!(harness.plan.parks.is_empty(), "one idle core is not more than one and a quarter");
    }
}

#[test]
fn a_static_set_has_its_cores_from_the_start_and_never_another() {
    let mut harness = Harness::new("static_set", 4);
    harness.app(terms(0, 2, 4), 0, 4);
    harness.app(terms(1, 1, 4), 10, 4);
    harness.app(batch(2, 4), 20, 4);
    for _ in 0..5 {
        let all: Vec<BusyWorker> = (0..4).chain(10..14).map(|id| busy(id, 9, 0)).collect();
        harness.tick(&all, &[0, 1, 2]);
    }
    assert_eq!([0, 1, 2].map(|app| harness.cores(app)), [2, 1, 0]);
    harness.park(1);
    assert!(harness.tick(&[], &[]).is_empty(), "it waits on its own core");
    assert_eq!(harness.tick(&[busy(0, 1, 0)], &[]).grants, [hold(1, 2)], "something waits");
    harness.park(1);
    assert_eq!(harness.tick(&[], &[0]).grants, [hold(1, 2)]);
}

#[test]
fn a_static_set_takes_back_what_another_policy_gave() {
    let mut harness = Harness::new("queue_delay", 4);
    harness.app(terms(0, 1, 4), 0, 4);
    harness.app(terms(1, 1, 1), 10, 1);
    harness.start(0, 3);
    harness.control.set_policy(by_name("static_set").expect("listed"));
    let plan = harness.tick(&[], &[0]).clone();
    assert_eq!((plan.parks, plan.grants), (vec![hold(2, 2)], vec![hold(10, 3)]));
    assert_eq!(harness.tick(&[], &[0]).parks, [hold(1, 1)]);
    assert!(harness.tick(&[], &[]).is_empty());
}

#[test]
fn ticks_come_no_more_often_than_their_cost_allows() {
    let mut harness = Harness::new("queue_delay", 2);
    assert_eq!(harness.control.interval(), Nanos::from_micros(5));
    let sample = CoresSample { cost: Nanos::from_micros(3), ..CoresSample::default() };
    for _ in 0..100 {
        harness.control.tick(&sample, &mut harness.plan);
    }
    assert!(harness.control.interval() >= Nanos::from_micros(30), "{}", harness.control.interval());
}
