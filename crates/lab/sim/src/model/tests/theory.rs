//! With nothing but service the machine is a queue that mathematics knows.

use super::*;
use crate::{BatchMeans, closed_form};

/// Steps that are batches: as many as [`BatchMeans`] has.
const BATCHES: u64 = 20;

/// Runs it without costs in long batches; the mean time of a packet in units of the mean service
/// time, with its bounds, and all of them together.
fn measure(cores: u16, app: AppPlan, load: f64, millis: u64) -> (crate::Interval, AppOutcome) {
    let rate = load / app.service_mean.as_secs_f64();
    let mut plan = plan(cores, app, rate);
    plan.costs = Costs::FREE;
    plan.steps = vec![Step::new(Nanos::from_millis(millis), [rate]); 1 + BATCHES as usize];
    let mean_ns = plan.apps[0].service_mean.0 as f64;
    let mut means = BatchMeans::new(BATCHES);
    let mut sum = AppOutcome::default();
    // The first begins with empty queues.
    for step in &run(plan).steps[1..] {
        means.add(step.apps[0].latency.mean_ns() / mean_ns);
        sum.add(&step.apps[0]);
    }
    (means.interval().expect("the run is over"), sum)
}

/// Within 2 % of theory and within its interval, which is short enough to say so.
fn is_as_theory_says(found: crate::Interval, expected: f64, what: &str) {
    assert!(found.allows(expected), "{what}: {found:?}, expected {expected}");
    assert!((found.mean / expected - 1.0).abs() < 0.02, "{what}: {found:?}, expected {expected}");
    assert!(found.half_width < 0.025 * expected, "{what}: {found:?} says nothing");
}

/// The mean time in a system of two servers with queues of their own, each customer in the shorter
/// one, with exponential service: of the Markov chain of the two numbers of customers, at a load of
/// each server, by uniformised steps until nothing changes.
fn join_the_shorter_of_two(load: f64) -> f64 {
    const FULL: usize = 60;
    let rate = 2.0 * load;
    let total = rate + 2.0;
    let mut chances = vec![[0.0_f64; FULL + 1]; FULL + 1];
    chances[0][0] = 1.0;
    let mut mean = 0.0;
    loop {
        let mut next = vec![[0.0_f64; FULL + 1]; FULL + 1];
        for (one, row) in chances.iter().enumerate() {
            for (other, chance) in row.iter().enumerate() {
                let share = chance / total;
                let grown = if one <= other { (one + 1, other) } else { (one, other + 1) };
                next[grown.0.min(FULL)][grown.1.min(FULL)] += share * rate;
                next[one.saturating_sub(1)][other] += share;
                next[one][other.saturating_sub(1)] += share;
            }
        }
        chances = next;
        let customers = |one: usize, other: usize| (one + other) as f64 * chances[one][other];
        let all = |one| (0..=FULL).map(move |other| customers(one, other)).sum::<f64>();
        let now = (0..=FULL).map(all).sum::<f64>() / rate;
        if (now - mean).abs() < 1e-10 {
            return now;
        }
        mean = now;
    }
}

#[test]
fn one_worker_makes_packets_wait_as_pollaczek_and_khinchin_say() {
    // Squared coefficients of variation: 0.9 x 0.25 + 0.1 x 30.25 - 1 of bimodal1.
    let services = [
        (Distribution::Constant, 0.0),
        (Distribution::Exponential, 1.0),
        (Distribution::Bimodal1, 2.25),
    ];
    for (service, scv) in services {
        for load in [0.3, 0.7] {
            let app = AppPlan { service, ..exponential(1, System::policy("sticky")) };
            let (found, _) = measure(1, app, load, 600);
            let expected = 1.0 + closed_form::mg1_mean_wait(load, scv);
            is_as_theory_says(found, expected, &format!("{service} {load}"));
        }
    }
}

#[test]
fn one_queue_for_many_workers_waits_as_erlang_says() {
    for (workers, load) in [(2, 1.6), (10, 7.0), (10, 9.0)] {
        let (found, _) = measure(workers, exponential(workers, System::OneQueue), load, 300);
        let expected = 1.0 + closed_form::mmn_mean_wait(u32::from(workers), load);
        is_as_theory_says(found, expected, &format!("{workers} {load}"));
    }
}

#[test]
fn the_shortest_ring_with_stealing_is_as_good_as_one_queue() {
    let app = AppPlan { steals: true, ..exponential(10, System::policy("shared")) };
    let (found, _) = measure(10, app, 8.0, 100);
    // Nobody is idle while something waits, so the mean is that of one queue.
    is_as_theory_says(found, 1.0 + closed_form::mmn_mean_wait(10, 8.0), "shared");
}

#[test]
fn the_shorter_of_two_rings_makes_packets_wait_as_its_markov_chain_says() {
    // Both bounds: a single queue for both is better, and a queue of each worker's own is worse.
    let (shared, own) = (1.0 / (1.0 - 0.49), 1.0 / (1.0 - 0.7));
    let theory = join_the_shorter_of_two(0.7);
    assert!(shared < theory && theory < own, "{shared} {theory} {own}");
    for load in [0.4, 0.7] {
        let app = exponential(2, System::policy("shared"));
        let (found, _) = measure(2, app, 2.0 * load, 300);
        is_as_theory_says(found, join_the_shorter_of_two(load), &format!("{load}"));
    }
}

#[test]
fn percentiles_are_those_of_the_distribution_that_theory_names() {
    let (_, all) = measure(1, exponential(1, System::policy("sticky")), 0.7, 250);
    for share in [0.5, 0.9, 0.99] {
        let expected = closed_form::mm1_sojourn_quantile(0.7, share) * 10_000.0;
        let ratio = all.latency.quantile(share).0 as f64 / expected;
        assert!((0.93..1.07).contains(&ratio), "{share}: {ratio}");
    }
}

#[test]
fn flows_spread_over_workers_are_as_many_queues_of_their_own() {
    // Ten queues with a tenth of the load each, but for what chance gives one group more than
    // another.
    let app = AppPlan { flows: 1_000_000, ..exponential(10, System::policy("prefilled")) };
    let (found, _) = measure(10, app, 7.0, 100);
    let expected = 1.0 + closed_form::mg1_mean_wait(0.7, 1.0);
    assert!((0.95..1.10).contains(&(found.mean / expected)), "{found:?} {expected}");
}

#[test]
fn a_quantum_shares_the_worker_and_makes_every_kind_of_work_wait_alike() {
    // With a short quantum one queue is processor sharing: its mean depends on the load alone.
    for service in [Distribution::Exponential, Distribution::Bimodal1] {
        let quantum = Nanos(200);
        let app = AppPlan { service, quantum, ..exponential(1, System::OneQueue) };
        let (found, _) = measure(1, app, 0.6, 300);
        is_as_theory_says(found, 1.0 / (1.0 - 0.6), &service.to_string());
    }
}
