//! Workers without a core: which of them call for one, and what becomes of those that get none.

use super::*;

#[test]
fn a_parked_worker_gets_an_idle_core_at_once_however_slow_the_ticks() {
    let p99 = |interval| {
        let app = AppPlan {
            spin: Nanos::from_micros(2),
            service: Distribution::Constant,
            guaranteed: 0,
            ..exponential(1, System::policy("sticky"))
        };
        let plan = MachinePlan { interval, ..plan(1, app, 500.0) };
        last(run(plan)).latency.quantile(0.99)
    };
    let [fast, slow] = [Nanos::from_micros(5), Nanos::from_millis(10)].map(p99);
    assert!(slow.0 < 2 * fast.0, "{fast} with ticks of 5 us, {slow} with ticks of 10 ms");
}

#[test]
fn a_worker_that_waits_in_vain_gives_its_flows_to_the_one_that_runs() {
    // One core, which the first worker never gives back: something comes for it all the time.
    let app = AppPlan {
        service: Distribution::Constant,
        service_mean: Nanos::from_micros(5),
        guaranteed: 0,
        spin: Nanos::from_millis(1),
        rest_after: Nanos::from_millis(10),
        ..exponential(2, System::policy("sticky"))
    };
    let outcome = run(plan(1, app, 100_000.0));
    let dropped: u64 = outcome.steps.iter().map(|step| step.apps[0].dropped).sum();
    let app = last(outcome);
    assert!(dropped == 0 && !app.is_saturated(), "{dropped} dropped, {app:?}");
    // It waited in the first tenth of a second, and never again.
    assert!(app.latency.quantile(0.999) < Nanos::from_millis(1), "{}", app.latency.quantile(0.999));
}

#[test]
fn the_shortest_ring_may_be_one_of_a_parked_worker_which_is_called_by_it() {
    let app = AppPlan {
        service: Distribution::Constant,
        guaranteed: 0,
        spin: Nanos::from_micros(2),
        rest_after: Nanos::FAR_FUTURE,
        ..exponential(2, System::policy("shared"))
    };
    // More than one can do, and hardly a tick to find it out: workers that are granted a core have
    // been called.
    let interval = Nanos::from_millis(10);
    let app = last(run(MachinePlan { interval, ..plan(2, app, 150_000.0) }));
    assert!(app.grants > 10 * 100, "a hundred ticks, {} grants: {app:?}", app.grants);
}

#[test]
fn workers_without_a_core_add_nothing_to_what_the_cores_can_do() {
    // Packets of 2 ms from one queue, more than two cores can do; another application comes, has
    // one of these taken back in the middle of a packet, and keeps it.
    let slow = AppPlan {
        service: Distribution::Constant,
        service_mean: Nanos::from_millis(2),
        guaranteed: 0,
        rest_after: Nanos::from_millis(10),
        ..exponential(2, System::OneQueue)
    };
    let quick = AppPlan { workers: 1, guaranteed: 1, ..slow.clone() };
    let quick = AppPlan { service_mean: Nanos::from_micros(1), ..quick };
    let mut plan = plan(2, slow, 0.0);
    plan.apps.push(quick);
    let step = |millis, quick| Step::new(Nanos::from_millis(millis), [2000.0, quick]);
    plan.steps = vec![step(100, 0.0), step(1000, 1000.0)];
    let outcome = run(plan);
    let slow = &outcome.steps[1].apps[0];
    assert!(slow.revokes > 0 && slow.is_saturated(), "{slow:?}");
    // What was begun on the core that was taken back is finished elsewhere, and nothing else.
    let elsewhere = Nanos::from_millis(2).0 * (slow.revokes + 1);
    let work = Nanos::from_millis(2).0 * slow.delivered;
    assert!(work <= slow.core_time.0 + elsewhere, "{} ms of work, {slow:?}", work / 1_000_000);
}
