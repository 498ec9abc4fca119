//! What the papers are about: who is reordered, who waits, who gets cores.

use policy::cores::Class;

use super::*;

/// Four workers whose cores come and go.
fn restless(system: System) -> AppPlan {
    AppPlan {
        guaranteed: 0,
        flows: 500,
        spin: Nanos::from_micros(2),
        // A table is rewritten in a few turns of 50 us.
        rest_after: Nanos::from_micros(200),
        ..exponential(4, system)
    }
}

#[test]
fn groups_that_move_with_their_workers_reorder_nothing_and_hashes_that_follow_the_cores_do() {
    let app = |system, rate| {
        // Ticks so far apart that none finds a worker on its way to its core, and gives another one
        // its rest.
        let interval = Nanos::from_micros(100);
        let plan = MachinePlan { interval, ..plan(4, restless(system), rate) };
        // Both steps: who never gives a flow back has moved all that it ever will in the first.
        let mut sum = AppOutcome::default();
        run(plan).steps.iter().for_each(|step| sum.add(&step.apps[0]));
        sum
    };
    for policy in ["sticky", "modulo", "calisto", "balanced", "prefilled", "hybrid", "listing3"] {
        let app = app(System::policy_over(policy, 128), 20_000.0);

        assert!(app.grants > 100, "{policy}: cores came and went {} times", app.grants);
        assert_eq!(app.reordered, 0, "{policy}");
        assert!(app.held > 0 || matches!(policy, "calisto" | "listing3"), "{policy}: {app:?}");
        assert!(app.moved_flows > 0 || policy == "listing3", "{policy}: {app:?}");
        assert!(!app.is_saturated(), "{policy}: {app:?}");
    }
    assert!(app(System::Shenango, 100_000.0).reordered > 0);
    assert!(app(System::OneQueue, 100_000.0).reordered > 0, "one queue has no order either");
}

#[test]
fn more_workers_move_the_fewest_flows_with_sticky_and_most_with_modulo() {
    let moved = |policy| {
        let app = exponential(5, System::policy(policy));
        let step = Step::new(Nanos::from_millis(400), [400_000.0]);
        let steps = vec![step.clone().with_workers([4]), step.with_workers([5])];
        let app = AppPlan { flows: 20_000, ..app };
        let outcome = last(run(MachinePlan { steps, ..plan(5, app, 0.0) }));
        assert!(outcome.moved_flows <= outcome.moved_packets && outcome.reordered == 0);
        outcome.moved_flows as f64 / 20_000.0
    };
    // The shares of docs/figures/steering.md, of flows that send in both steps: all of them, at
    // twenty packets each.
    for (policy, expected) in [("sticky", 0.2), ("modulo", 0.8), ("calisto", 0.0)] {
        let found = moved(policy);
        assert!((found - expected).abs() < 0.03, "{policy}: {found}");
    }
}

#[test]
fn packing_serves_a_light_load_with_fewer_cores_and_no_worse_tail_than_shenangos_rule() {
    // The scenario `calisto-beyond` at 200 kpps.
    let of = |system, cores_policy: &str| {
        let app = AppPlan {
            system,
            workers: 10,
            flows: 10_000,
            service: Distribution::Exponential,
            service_mean: Nanos::from_micros(1),
            ..AppPlan::default()
        };
        let step = |millis| Step::new(Nanos::from_millis(millis), [200_000.0]);
        let plan = MachinePlan {
            cores: 10,
            cores_policy: cores_policy.to_owned(),
            apps: vec![app],
            steps: vec![step(10), step(200)],
            ..MachinePlan::default()
        };
        let app = last(run(plan));
        assert_eq!((app.dropped, app.is_saturated()), (0, false));
        (app.cores(Nanos::from_millis(200)), app.latency.percentiles().p99_us, app)
    };
    let (rule_cores, rule_p99, _) = of(System::Shenango, "queue_delay");
    let (cores, p99, packed) = of(System::policy("sticky"), "packing");
    assert!(cores <= 1.3 * rule_cores, "{cores} and {rule_cores} cores");
    assert!(p99 <= rule_p99, "{p99} and {rule_p99} us");
    assert_eq!(packed.reordered, 0);
    let (untouched, ..) = of(System::policy("sticky"), "queue_delay");
    assert!(untouched > 3.0 * cores, "flows that are tied to ten workers wake all of them");
}

#[test]
fn a_load_that_falls_is_packed_with_no_more_moves_than_it_takes() {
    let app = AppPlan {
        workers: 10,
        flows: 2_000,
        service: Distribution::Exponential,
        service_mean: Nanos::from_micros(10),
        ..AppPlan::default()
    };
    let step = |millis, rate| Step::new(Nanos::from_millis(millis), [rate]);
    let plan = MachinePlan {
        cores: 10,
        cores_policy: "packing".to_owned(),
        apps: vec![app],
        steps: vec![step(200, 400_000.0), step(400, 20_000.0)],
        ..MachinePlan::default()
    };
    let outcome = run(plan);
    let [high, low] = [0, 1].map(|step| &outcome.steps[step].apps[0]);
    let (before, after) = (high.cores(Nanos::from_millis(200)), low.cores(Nanos::from_millis(400)));
    assert!(before > 5.0 && after < 2.0, "{before} and {after} cores");
    // All but those of the worker or two that stay: nothing moves on the way and once more.
    let moved = low.moved_flows as f64 / 2_000.0;
    assert!(moved <= 1.2 * (1.0 - 1.0 / before.ceil().max(2.0)), "{moved}");
    assert_eq!(low.reordered + low.dropped, 0);
}

#[test]
fn a_batch_job_gets_what_is_left_and_gives_it_back() {
    let service = AppPlan { guaranteed: 1, ..restless(System::policy("sticky")) };
    let mut plan = plan(2, AppPlan { workers: 2, ..service }, 20_000.0);
    plan.apps.push(AppPlan::batch(2));
    plan.steps.iter_mut().for_each(|step| step.rates.push(0.0));
    let outcome = run(plan);
    let [service, batch] = &outcome.steps[1].apps[..] else { panic!("two applications") };
    assert_eq!(service.unfinished + service.dropped, 0);
    let cores = |app: &AppOutcome| app.cores(outcome.steps[1].length);
    assert!(cores(batch) > 1.0 && cores(service) < 1.0, "{} {}", cores(batch), cores(service));
    assert!(cores(batch) + cores(service) <= 2.0);
    // A tick, a core taken back, three packets before: far below what a slow controller gives.
    assert!(service.latency.percentiles().p99_us < 150.0, "{:?}", service.latency.percentiles());
    assert!(batch.revokes > 1000, "it was sent away whenever a packet came: {}", batch.revokes);
}

#[test]
fn a_slow_controller_lets_a_shift_of_the_load_wait_and_a_fast_one_does_not() {
    let p99 = |interval| {
        // Only running workers have flows, so the ticks find out that they are too few.
        // Nothing is lost: what waits for 10 ms finds room.
        let app = AppPlan { flows: 10_000, ring: 4096, ..restless(System::Shenango) };
        let low = Step::new(Nanos::from_millis(20), [20_000.0]);
        let high = Step::new(Nanos::from_millis(20), [300_000.0]);
        let steps = vec![low, high];
        let app = last(run(MachinePlan { interval, steps, ..plan(4, app, 0.0) }));
        app.latency.percentiles().p99_us
    };
    let all = [Nanos::from_micros(5), Nanos::from_millis(1), Nanos::from_millis(10)].map(p99);
    // The fast one has served everybody before the others look.
    assert!(all[0] < 1000.0 && all[0] * 2.0 < all[1] && all[1] * 2.0 < all[2], "{all:?}");
}

#[test]
fn cores_follow_the_load_with_utilisation() {
    let app = AppPlan {
        guaranteed: 1,
        service: Distribution::Constant,
        spin: Nanos::FAR_FUTURE,
        rest_after: Nanos::from_millis(10),
        ..exponential(4, System::policy("sticky"))
    };
    let step = |rate| Step::new(Nanos::from_millis(2000), [rate]);
    let steps = [step(20_000.0), step(250_000.0), step(0.0)];
    let sliced = steps.iter().flat_map(|step| step.sliced(Nanos::from_millis(500))).collect();
    let base = plan(4, app, 0.0);
    let interval = Nanos::from_millis(1);
    let utilisation = "utilisation".to_owned();
    let plan = MachinePlan { cores_policy: utilisation, interval, steps: sliced, ..base };
    let outcome = run(plan);
    let cores: Vec<f64> =
        outcome.steps.iter().map(|step| step.apps[0].cores(step.length)).collect();
    assert_eq!(cores.len(), 12, "a series over time");
    assert!(cores[3] < 2.1, "{cores:?}");
    assert!(cores[7] > 2.9, "{cores:?}");
    assert!(cores[11] < 1.1, "{cores:?}");
    let last = &outcome.steps[7].apps[0];
    assert!(!last.is_saturated() && last.latency.percentiles().p99_us < 1000.0, "{last:?}");
}

#[test]
fn with_bimodal_work_stealing_has_nearly_the_tail_of_one_queue_and_queues_of_their_own_a_long_one()
{
    let p99 = |system, steals, quantum| {
        let app =
            AppPlan { service: Distribution::Bimodal1, steals, quantum, ..exponential(10, system) };
        last(run(plan(10, app, 700_000.0))).latency.percentiles().p99_us
    };
    let never = Nanos::FAR_FUTURE;
    let sticky = p99(System::policy("sticky"), false, never);
    let stealing = p99(System::policy("sticky"), true, never);
    let one_queue = p99(System::OneQueue, false, never);
    assert!((0.95..1.1).contains(&(stealing / one_queue)), "{one_queue} {stealing}");
    assert!(sticky > 2.0 * stealing, "{stealing} {sticky}");
    // Long work that is put aside lets short work pass: processor sharing.
    let shared = p99(System::OneQueue, false, Nanos::from_micros(10));
    assert!(shared < sticky, "{shared} {sticky}");
}

#[test]
fn a_worker_that_does_not_hear_is_moved_off_its_core_and_goes_on_where_it_was() {
    // Packets of 2 ms, and a yield bound of 100 us.
    let slow = AppPlan {
        guaranteed: 0,
        service: Distribution::Constant,
        service_mean: Nanos::from_millis(2),
        spin: Nanos::from_micros(2),
        ..exponential(1, System::policy("sticky"))
    };
    let quick = AppPlan { service_mean: Nanos::from_micros(1), guaranteed: 1, ..slow.clone() };
    let step = Step::new(Nanos::from_secs(1), [300.0, 200.0]);
    let plan = MachinePlan {
        cores: 1,
        apps: vec![slow, quick],
        steps: vec![step],
        ..MachinePlan::default()
    };
    let outcome = run(plan);
    let [slow, quick] = &outcome.steps[0].apps[..] else { panic!("two applications") };
    assert!(quick.latency.percentiles().p99_us < 400.0, "{:?}", quick.latency.percentiles());
    assert!(slow.revokes > 50 && slow.delivered > 280, "{slow:?}");
    // What it had done was not lost: its packets take their 2 ms of work and no more.
    let work = slow.busy_time.as_secs_f64() * 1e3 / slow.delivered as f64;
    assert!((2.0..2.05).contains(&work), "{work} ms");
}

#[test]
fn an_exact_table_fills_for_good_when_flows_come_and_go() {
    let app = AppPlan { churn: 10_000.0, flows: 400, ..exponential(2, System::PublicCode) };
    let outcome = run(plan(2, app, 50_000.0));
    let [first, second] = &outcome.steps[..] else { panic!("two steps") };
    assert!(first.apps[0].replaced_flows > 900, "{first:?}");
    // 500 places: the flows of the first tenth of a second fill them, and those that follow find
    // none.
    assert!(second.apps[0].table_full > 40_000, "{second:?}");
}

#[test]
fn thousands_of_workers_that_rest_cost_nothing() {
    let app = AppPlan {
        workers: 8,
        flows: 100,
        spin: Nanos::from_micros(2),
        system: System::policy_over("sticky", 128),
        ..AppPlan::default()
    };
    let plan = MachinePlan {
        cores: 128,
        apps: vec![app; 1000],
        steps: vec![Step::new(Nanos::from_millis(20), vec![1000.0; 1000])],
        ..MachinePlan::default()
    };
    let outcome = run(plan);
    let total = outcome.steps[0].total();
    assert!(total.delivered > 19_000 && total.dropped == 0, "{total:?}");
    // Three events of each packet, and a few of its core.
    assert!(outcome.events < 15 * total.delivered, "{} events", outcome.events);
    assert!(outcome.packet_events >= 3 * total.delivered);
}

#[test]
fn a_batch_job_without_anybody_else_has_all_cores_all_the_time() {
    let mut plan = plan(4, AppPlan::batch(8), 0.0);
    plan.apps[0].class = Class::Batch;
    let app = last(run(plan));
    assert_eq!(app.core_time, Nanos::from_secs(4));
    assert_eq!(app.busy_time, app.core_time);
}

#[test]
fn a_load_that_is_looked_at_in_slices_is_the_same_load() {
    let whole = Step::new(Nanos::from_millis(50), [150_000.0]);
    let outcome = |steps| {
        let outcome = run(MachinePlan { steps, ..plan(4, restless(System::Shenango), 0.0) });
        let mut sum = AppOutcome::default();
        outcome.steps.iter().for_each(|step| sum.add(&step.apps[0]));
        (sum.latency, sum.delivered, sum.grants, sum.core_time, sum.moved_packets)
    };
    let slices = whole.sliced(Nanos::from_micros(700));
    assert!(outcome(vec![whole]) == outcome(slices), "a seam is felt");
}
