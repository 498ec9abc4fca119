//! Hand-overs: whose barrier passes when, and that no packet is lost by one.

use super::*;

/// Groups that are warm where `hybrid` would not put cold ones, rest until they have aged, and come
/// again. The last step is the one in which they do.
fn aged(app: AppPlan, rate: f64) -> MachinePlan {
    let app = AppPlan {
        system: System::policy_over("hybrid", 128),
        service: Distribution::Constant,
        workers: 3,
        flows: 2000,
        ..app
    };
    let step = |millis, rate| Step::new(Nanos::from_millis(millis), [rate]);
    let warm = step(100, 100_000.0);
    let steps = vec![
        warm.clone().with_workers([2]),
        warm.with_workers([3]),
        step(11_000, 0.0),
        step(100, rate),
    ];
    MachinePlan { steps, ..plan(3, app, 0.0) }
}

#[test]
fn a_packet_that_wakes_a_group_whose_owner_has_nothing_to_do_is_not_lost() {
    let app = last(run(aged(exponential(3, System::OneQueue), 20_000.0)));
    assert!(app.moved_flows > 0, "nothing was handed over: {app:?}");
    assert_eq!((app.dropped, app.reordered), (0, 0), "{app:?}");
}

#[test]
fn a_group_of_a_parked_owner_waits_until_that_is_awake() {
    // Nobody has a core when a packet comes: the old owner is called for its barrier, and then the
    // new one.
    let app = AppPlan {
        guaranteed: 0,
        spin: Nanos::from_micros(2),
        rest_after: Nanos::FAR_FUTURE,
        ..exponential(3, System::OneQueue)
    };
    let plan = aged(app, 500.0);
    let wake = plan.costs.wake.median;
    let app = last(run(plan));
    assert!(app.held > 0 && app.dropped == 0, "{app:?}");
    let slowest = app.latency.quantile(1.0);
    assert!(slowest > Nanos(2 * wake.0), "{slowest} with two wake-ups of {wake}");
}

#[test]
fn no_more_packets_wait_for_hand_overs_than_the_daemon_holds() {
    let app = AppPlan {
        flows: 10_000,
        ring: 4096,
        ..exponential(2, System::policy_over("sticky", 4096))
    };
    let step = |millis, workers| {
        Step::new(Nanos::from_millis(millis), [1_000_000.0]).with_workers([workers])
    };
    // The old owner has 4,096 packets of 10 us before its barrier; half of all are to move.
    let steps = vec![step(100, 1), step(15, 2), step(100, 2)];
    let outcome = run(MachinePlan { steps, costs: Costs::FREE, ..plan(2, app, 0.0) });
    let held: Vec<u64> = outcome.steps.iter().map(|step| step.apps[0].held).collect();
    assert_eq!(held[1], 2048, "{held:?}");
    let reordered: u64 = outcome.steps.iter().map(|step| step.apps[0].reordered).sum();
    assert_eq!(reordered, 0, "what is taken back stays in order");
}

#[test]
fn looks_at_the_load_of_groups_take_the_dispatchers_time_whatever_the_policy() {
    for (policy, groups) in [("balanced", 4096), ("sticky", 4096), ("sticky", 1024)] {
        let app = exponential(2, System::policy_over(policy, groups));
        let look = Nanos::from_micros(16);
        let costs = Costs { look: Range::nanos(look.0, look.0, look.0), ..Costs::FREE };
        // More than 256 packets a millisecond, and one step of a second: a look each millisecond.
        let mut plan = MachinePlan { costs, ..plan(2, app, 400_000.0) };
        plan.apps[0].service_mean = Nanos::from_micros(1);
        let outcome = run(plan);
        let expected = 1000 * look.0 * u64::from(groups) / 4096;
        assert_eq!(outcome.steps[1].dispatcher, Nanos(expected), "{policy} {groups}");
    }
}
