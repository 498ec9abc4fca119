//! The plant against theory, against itself, and against what it must never do.

use base::Nanos;
use load::Distribution;

use super::*;
use crate::closed_form;

const FREE: Range = Range::exactly(Nanos::ZERO);

fn free() -> Costs {
    Costs {
        dispatch: FREE,
        flow_lookup: FREE,
        flow_insert: FREE,
        flow_log: FREE,
        packet: FREE,
        cold: FREE,
        wake: FREE,
        switch: FREE,
        steal: FREE,
        spin: Range::exactly(Nanos::from_secs(1000)),
        revoke: FREE,
        outside: FREE,
    }
}

fn plan(cores: u16, app: AppPlan, rate: f64) -> PlantPlan {
    let step = |millis| Step { rates: vec![rate], length: Nanos::from_millis(millis) };
    PlantPlan {
        cores,
        cores_policy: "queue_delay".to_owned(),
        interval: Nanos::from_micros(5),
        apps: vec![app],
        costs: Costs::default(),
        level: Level::Median,
        steps: vec![step(100), step(1000)],
    }
}

fn run(plan: PlantPlan) -> Outcome {
    let outcome = Plant::new(plan, 7).expect("it is possible").run();
    for step in &outcome.steps {
        for app in &step.apps {
            let early = 10_000;
            assert!(app.delivered + app.dropped <= app.offered + early, "{app:?}");
        }
    }
    outcome
}

fn exponential(workers: u16, system: System) -> AppPlan {
    AppPlan {
        system,
        workers,
        guaranteed: workers,
        service: Distribution::Exponential,
        service_mean: Nanos::from_micros(10),
        flows: 100_000,
        rest_after: Nanos::FAR_FUTURE,
        ..AppPlan::default()
    }
}

#[test]
fn with_nothing_but_service_one_worker_is_the_queue_of_theory() {
    let mut plan = plan(1, exponential(1, System::policy("sticky")), 70_000.0);
    plan.costs = free();
    plan.steps[1].length = Nanos::from_secs(20);
    let outcome = run(plan);
    let latency = &outcome.steps[1].apps[0].latency;
    for share in [0.5, 0.9, 0.99] {
        let expected = closed_form::mm1_sojourn_quantile(0.7, share) * 10_000.0;
        let ratio = latency.quantile(share).0 as f64 / expected;
        assert!((0.93..1.07).contains(&ratio), "{share}: {ratio}");
    }
}

#[test]
fn one_queue_for_ten_workers_is_the_queue_of_theory_with_ten_servers() {
    let mut plan = plan(10, exponential(10, System::policy("shared")), 800_000.0);
    plan.costs = free();
    plan.apps[0].steals = true;
    plan.steps[1].length = Nanos::from_secs(3);
    let outcome = run(plan);
    let mean = outcome.steps[1].apps[0].latency.percentiles().mean_us / 10.0;
    let expected = 1.0 + closed_form::mmn_mean_wait(10, 8.0);
    assert!((mean / expected - 1.0).abs() < 0.05, "{mean} {expected}");
}

#[test]
fn every_packet_is_answered_dropped_or_still_there() {
    for system in
        [System::Shenango, System::PublicCode, System::policy("modulo"), System::policy("sticky")]
    {
        for rate in [1e4, 1e6, 2e7] {
            let mut plan = plan(4, exponential(4, system.clone()), rate);
            plan.apps[0].guaranteed = 1;
            plan.apps[0].rest_after = Nanos::from_millis(1);
            plan.steps = vec![Step { rates: vec![rate], length: Nanos::from_millis(50) }];
            let outcome = run(plan);
            let app = &outcome.steps[0].apps[0];
            // Up to a port's ring is with the dispatcher, and what is held waits for a mark.
            let elsewhere = app.offered - app.delivered - app.dropped - app.unfinished;
            assert!(elsewhere <= 2048 + app.held, "{system:?} {rate}: {app:?}");
            assert_eq!(app.is_saturated(), rate > 1e5 * 4.0, "{system:?} {rate}: {app:?}");
        }
    }
}

#[test]
fn one_seed_gives_one_result() {
    let outcome = |seed| {
        let plan = plan(4, exponential(4, System::policy("sticky")), 300_000.0);
        let outcome = Plant::new(plan, seed).expect("it is possible").run();
        let app = &outcome.steps[1].apps[0];
        (outcome.events, app.delivered, app.moved, app.latency.percentiles())
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

#[test]
fn groups_that_move_with_their_workers_reorder_nothing_and_hashes_that_follow_the_cores_do() {
    let app = |system| {
        let mut plan = plan(4, exponential(4, system), 250_000.0);
        plan.apps[0].guaranteed = 0;
        plan.apps[0].flows = 500;
        plan.apps[0].rest_after = Nanos::from_micros(200);
        run(plan).steps.remove(1).apps.remove(0)
    };
    for policy in ["sticky", "modulo", "calisto", "balanced", "prefilled", "hybrid"] {
        let app = app(System::policy(policy));
        assert!(app.grants > 100, "{policy}: cores came and went {} times", app.grants);
        assert_eq!(app.reordered, 0, "{policy}");
    }
    assert!(app(System::Shenango).reordered > 0);
}

#[test]
fn a_batch_job_gets_what_is_left_and_gives_it_back() {
    use policy::cores::Class;
    let mut plan = plan(2, exponential(2, System::policy("sticky")), 20_000.0);
    plan.apps[0].guaranteed = 1;
    let batch = AppPlan { class: Class::Batch, workers: 2, ..AppPlan::default() };
    plan.apps.push(batch);
    plan.steps.iter_mut().for_each(|step| step.rates.push(0.0));
    let outcome = run(plan);
    let [service, batch] = &outcome.steps[1].apps[..] else { panic!("two applications") };
    let share = |app: &AppOutcome| app.core_time.as_secs_f64() / 2.0;
    assert!(share(batch) > 0.5 && share(service) < 0.3, "{} {}", share(batch), share(service));
    assert!(service.latency.percentiles().p99_us < 150.0, "{:?}", service.latency.percentiles());
    assert!(batch.grants > 1000, "it was sent away whenever a packet came: {}", batch.grants);
}
