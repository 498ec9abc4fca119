//! One core against theory, against what was measured, and against the papers' words.

use super::*;
use crate::closed_form;

const SEED: u64 = 7;

fn light(queues: u32, waiting: Waiting) -> Plan {
    Plan { queues, busy_queues: queues, feed: Feed::Rate(200_000.0), waiting, ..Plan::default() }
}

fn peak(queues: u32, busy_queues: u32, waiting: Waiting) -> f64 {
    // In turns of 16, as `bench wait` takes them.
    let feed = Feed::Saturated;
    let plan = Plan { queues, busy_queues, feed, waiting, burst: 16, ..Plan::default() };
    run(&plan, SEED).throughput()
}

#[test]
fn one_queue_without_costs_is_the_queue_of_theory() {
    for waiting in Waiting::ALL {
        for load in [0.3, 0.7, 0.9] {
            let work = Nanos::from_micros(1);
            let feed = Feed::Rate(load * 1e6);
            let costs = ScanCosts::free();
            let plan = Plan { feed, waiting, work, costs, items: 400_000, ..Plan::default() };
            let found = run(&plan, SEED).latency.mean_ns() / 1e3;
            let expected = 1.0 + closed_form::mg1_mean_wait(load, 0.0);
            assert!(
                (found / expected - 1.0).abs() < 0.03,
                "{waiting:?} {load}: {found} {expected}"
            );
        }
    }
}

#[test]
fn latency_by_queues_is_what_was_measured() {
    // The medians of docs/figures/waiting.md, in nanoseconds.
    let measured =
        [(1, 94, 165), (64, 134, 144), (512, 545, 185), (1024, 927, 195), (4096, 3880, 324)];
    for (queues, polling, ready_set) in measured {
        for (waiting, expected) in [(Waiting::Polling, polling), (Waiting::ReadySet, ready_set)] {
            let found = run(&light(queues, waiting), SEED).latency.quantile(0.5).0 as f64;
            let ratio = found / f64::from(expected);
            assert!((0.8..1.25).contains(&ratio), "{queues} {waiting:?}: {found} ns, {expected}");
        }
    }
}

#[test]
fn peak_throughput_is_what_was_measured() {
    // Ratios of ready set to polling with one hot queue, from docs/figures/waiting.md.
    for (queues, expected) in [(1, 0.85), (64, 2.4), (256, 5.9), (1024, 21.0), (4096, 92.0)] {
        let ratio = peak(queues, 1, Waiting::ReadySet) / peak(queues, 1, Waiting::Polling);
        assert!((0.6..1.7).contains(&(ratio / expected)), "{queues}: {ratio}, {expected}");
    }
    for waiting in Waiting::ALL {
        let found = peak(64, 64, waiting) / 1e6;
        assert!((250.0..500.0).contains(&found), "{waiting:?}: {found} M/s with all queues busy");
    }
}

#[test]
fn polling_suffers_from_queues_and_a_ready_set_from_their_caches_alone() {
    let p50 = |queues, waiting| run(&light(queues, waiting), SEED).latency.quantile(0.5).0;
    let of = |waiting| [1, 64, 256, 512].map(|queues| p50(queues, waiting));
    let (polling, ready_set) = (of(Waiting::Polling), of(Waiting::ReadySet));
    assert!(polling.is_sorted() && polling[3] > 3 * polling[0], "{polling:?}");
    assert!(ready_set[3] < ready_set[0] * 3 / 2, "{ready_set:?}");
    assert!(polling[0] < ready_set[0], "a single queue is found sooner by looking at it");
    let loss = |waiting| peak(512, 512, waiting) / peak(512, 1, waiting);
    assert!(loss(Waiting::Polling) > 5.0 && loss(Waiting::ReadySet) < 1.0);
}

#[test]
fn who_polls_does_more_in_vain_the_less_there_is_to_do() {
    let tax = |waiting, idle, load: f64| {
        let work = Nanos::from_micros(2);
        let feed = Feed::Rate(load * 0.5e6);
        run(&Plan { feed, waiting, idle, work, ..light(8, waiting) }, SEED)
    };
    let loads = [0.1, 0.25, 0.5, 0.75, 0.9];
    let polling = loads.map(|load| tax(Waiting::Polling, Idle::Spins, load));
    assert!(polling.windows(2).all(|pair| pair[0].tax() > pair[1].tax()));
    assert!(polling[0].tax() > 0.85 && polling[4].tax() < 0.15);
    assert!(polling[0].empty_looks_per_item() > 500.0);
    let per_cycle = polling.each_ref().map(Outcome::instructions_per_cycle);
    assert!(per_cycle.windows(2).all(|pair| pair[0] > pair[1]), "{per_cycle:?}");
    let halting = tax(Waiting::ReadySet, Idle::Halts, 0.1);
    assert!(halting.tax() < 0.01 && halting.asleep_ns > 0.8 * halting.elapsed_ns);
    let sleeping = tax(Waiting::ReadySet, Idle::Sleeps(Nanos::from_micros(5)), 0.1);
    assert!(sleeping.tax() < 0.4 && sleeping.tax() > halting.tax(), "{}", sleeping.tax());
    assert!(sleeping.latency.quantile(0.5) > halting.latency.quantile(0.5));
}

#[test]
fn at_full_load_nothing_is_in_vain_and_getting_at_items_is_the_tax_that_is_left() {
    let work = Nanos(50);
    for waiting in Waiting::ALL {
        let plan = Plan { feed: Feed::Saturated, busy_queues: 8, work, ..light(8, waiting) };
        let outcome = run(&plan, SEED);
        let in_work = outcome.throughput() * work.as_secs_f64();
        assert_eq!(outcome.useless_ns, 0.0, "{waiting:?}");
        assert!(outcome.tax() > 0.0, "{waiting:?}");
        assert!((outcome.tax() - (1.0 - in_work)).abs() < 1e-6, "{waiting:?}: {}", outcome.tax());
    }
}

#[test]
fn the_parts_of_the_time_are_the_whole_and_one_seed_gives_one_outcome() {
    for waiting in Waiting::ALL {
        for idle in [Idle::Spins, Idle::Halts, Idle::Sleeps(Nanos::from_micros(5))] {
            let plan = Plan { idle, ..light(64, waiting) };
            let outcome = run(&plan, SEED);
            let parts = outcome.useful_ns + outcome.useless_ns + outcome.asleep_ns;
            assert!((parts / outcome.elapsed_ns - 1.0).abs() < 0.01, "{plan:?} {outcome:?}");
            assert_eq!(outcome, run(&plan, SEED));
            assert_ne!(outcome, run(&plan, SEED + 1));
        }
    }
}

#[test]
fn a_full_queue_drops_and_says_so() {
    let plan = Plan { feed: Feed::Rate(4e6), work: Nanos::from_micros(1), ..Plan::default() };
    let outcome = run(&plan, SEED);
    assert!(outcome.dropped > 2 * outcome.delivered, "{outcome:?}");
    assert!((outcome.throughput() / 1e6 - 1.0).abs() < 0.05, "{}", outcome.throughput());
}

#[test]
fn more_than_can_be_done_is_saturation_whether_it_is_dropped_or_waits_in_a_long_queue() {
    for waiting in Waiting::ALL {
        let at = |load: f64, ring| {
            let (feed, work) = (Feed::Rate(load * 1e6), Nanos::from_micros(1));
            let costs = ScanCosts::free();
            run(&Plan { feed, work, waiting, ring, costs, ..Plan::default() }, SEED)
        };
        assert!(!at(0.9, 1024).is_saturated(), "{waiting:?}");
        let [short, endless] = [64, 1 << 20].map(|ring| at(1.1, ring));
        assert!(short.dropped > 0 && short.is_saturated(), "{short:?}");
        assert!(endless.dropped == 0 && endless.is_saturated(), "{endless:?}");
    }
    let all = Plan { feed: Feed::Saturated, ..Plan::default() };
    assert!(!run(&all, SEED).is_saturated(), "the most that can be done is done");
}

#[test]
fn an_overload_without_bounds_ends_and_is_saturation() {
    let plan = Plan { feed: Feed::Rate(1e9), work: Nanos::from_millis(1), ..Plan::default() };
    let outcome = run(&plan, SEED);
    assert!(outcome.offered <= 20 * plan.items && outcome.is_saturated(), "{outcome:?}");
    assert!(outcome.elapsed_ns.is_finite() && outcome.delivered > 0, "{outcome:?}");
}
