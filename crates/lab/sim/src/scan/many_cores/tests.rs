//! Cores against theory, and against the papers' words.

use super::*;
use crate::closed_form;

const SEED: u64 = 11;

fn free(cores: u32, queues: Queues, waiting: Waiting, load: f64) -> Plan {
    let work = Nanos::from_micros(1);
    let costs = ScanCosts::free();
    let (rate, items) = (load * 1e6, 400_000);
    let service = Distribution::Exponential;
    // With this many flows hardly two items of one are there at once.
    let (flows, burst, ring) = (100_000, 1, 100_000);
    Plan {
        cores,
        queues,
        waiting,
        rate,
        service,
        work,
        flows,
        burst,
        ring,
        costs,
        items,
        ..Plan::default()
    }
}

fn hiccups(queues: Queues, waiting: Waiting, rate: f64, share: f64) -> Plan {
    // In bursts as short as `bench wait` claims them.
    Plan { queues, waiting, rate, hiccup_share: share, burst: 2, ..Plan::default() }
}

fn mean_us(plan: &Plan) -> f64 {
    run(plan, SEED).latency.mean_ns() / 1e3
}

#[test]
fn without_costs_own_queues_are_as_many_queues_of_theory_and_shared_ones_a_single_one() {
    for waiting in Waiting::ALL {
        let found = mean_us(&free(10, Queues::Own, waiting, 7.0));
        let expected = 1.0 + closed_form::mg1_mean_wait(0.7, 1.0);
        assert!((found / expected - 1.0).abs() < 0.05, "{waiting:?}: {found} {expected}");
        for load in [7.0, 9.0] {
            let found = mean_us(&free(10, Queues::Shared, waiting, load));
            let expected = 1.0 + closed_form::mmn_mean_wait(10, load);
            assert!(
                (found / expected - 1.0).abs() < 0.05,
                "{waiting:?} {load}: {found} {expected}"
            );
        }
    }
}

#[test]
fn every_item_is_done_or_dropped_and_one_seed_gives_one_outcome() {
    for queues in Queues::ALL {
        for waiting in Waiting::ALL {
            for rate in [1e5, 1e7, 5e7, 1e9] {
                let plan = Plan { items: 20_000, ..hiccups(queues, waiting, rate, 0.01) };
                let outcome = run(&plan, SEED);
                assert_eq!(outcome.delivered + outcome.dropped, 20_000, "{plan:?}");
                assert_eq!(outcome.latency.count(), outcome.delivered, "{plan:?}");
                // Between the two it depends on who serves.
                let is_clear = !(1e7..1e9).contains(&rate);
                let is_saturated = outcome.is_saturated();
                assert!(!is_clear || is_saturated == (rate > 1e8), "{plan:?} {outcome:?}");
                assert_eq!(outcome, run(&plan, SEED));
            }
        }
    }
}

#[test]
fn who_comes_behind_a_hiccup_waits_with_queues_of_their_own_and_not_with_shared_ones() {
    let p99 = |queues, waiting, share| {
        let work = Nanos::from_micros(1);
        let plan = Plan { work, ..hiccups(queues, waiting, 6e6, share) };
        run(&plan, SEED).latency.quantile(0.99).0
    };
    for waiting in Waiting::ALL {
        let added = |queues| p99(queues, waiting, 0.01).saturating_sub(p99(queues, waiting, 0.0));
        let (own, shared) = (added(Queues::Own), added(Queues::Shared));
        assert!(
            own > shared,
            "{waiting:?}: {own} ns more with queues of their own, {shared} shared"
        );
    }
}

#[test]
fn polling_at_one_lock_saturates_before_queues_of_their_own_and_claims_of_many_queues_later() {
    let peak = |queues, waiting| run(&hiccups(queues, waiting, 200e6, 0.0), SEED).throughput();
    let own = peak(Queues::Own, Waiting::Polling);
    let lock = peak(Queues::Shared, Waiting::Polling);
    assert!(lock < 0.7 * own, "{lock} {own}");
    let claims = peak(Queues::Shared, Waiting::ReadySet);
    assert!(claims >= lock, "{claims} {lock}");
}

#[test]
fn idle_cores_take_turns_at_the_lock_in_vain() {
    let turns = |rate| {
        let outcome = run(&hiccups(Queues::Shared, Waiting::Polling, rate, 0.0), SEED);
        outcome.empty_turns as f64 / outcome.delivered as f64
    };
    let found = [1e5, 1e6, 5e6].map(turns);
    assert!(found.is_sorted_by(|more, less| more > less) && found[0] > 50.0, "{found:?}");
}

#[test]
fn a_short_run_of_more_than_can_be_done_is_saturated_and_one_of_half_of_it_is_not() {
    for waiting in Waiting::ALL {
        for (load, expected) in [(5.0, false), (13.0, true)] {
            let plan = Plan { items: 1000, ..free(10, Queues::Own, waiting, load) };
            let service = Distribution::Constant;
            let outcome = run(&Plan { service, ..plan }, SEED);
            assert_eq!(outcome.is_saturated(), expected, "{waiting:?} {load}: {outcome:?}");
        }
    }
}
