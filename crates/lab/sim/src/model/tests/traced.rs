//! Packets that were seen come when they came, and take what they took.

use std::sync::Arc;

use load::Random;

use super::*;

/// A worker with a core of its own that nothing costs anything, and these packets.
fn serve(packets: Vec<Traced>, rate: f64) -> AppOutcome {
    let trace = Arc::new(Trace::new(packets));
    let app = AppPlan { trace: Some(Arc::clone(&trace)), flows: 50, ..AppPlan::default() };
    let mut plan = plan(1, app.with_cores_of_its_own(), rate);
    plan.costs = Costs::FREE;
    plan.cores_policy = "static_set".to_owned();
    plan.steps = vec![Step::new(trace.length() + Nanos::from_secs(1), [rate])];
    last(run(plan))
}

#[test]
fn one_server_takes_the_packets_of_a_trace_as_lindley_says() {
    let mut random = Random::new(5);
    let (mut at, mut packets) = (0, Vec::new());
    for _ in 0..20_000 {
        at += (random.exponential() * 1e4) as u64;
        let work = Nanos((random.exponential() * 8e3) as u64);
        packets.push(Traced { at: Nanos(at), flow: random.below(50), work });
    }
    let (mut free, mut sum) = (0, 0);
    for Traced { at, work, .. } in &packets {
        free = free.max(at.0) + work.0;
        sum += free - at.0;
    }
    let expected = sum as f64 / packets.len() as f64;
    let app = serve(packets, 1.0);
    assert_eq!((app.offered, app.delivered), (20_000, 20_000));
    assert!(
        (app.latency.mean_ns() / expected - 1.0).abs() < 1e-3,
        "{} {expected}",
        app.latency.mean_ns()
    );
}

#[test]
fn a_trace_ends_where_it_ends_and_does_not_come_in_steps_without_a_rate() {
    let packets: Vec<Traced> =
        (0..10).map(|at| Traced { at: Nanos(at * 1000), flow: 1, work: Nanos(10) }).collect();
    assert_eq!(serve(packets.clone(), 1e6).offered, 10, "whatever the rate is");
    assert_eq!(serve(packets, 0.0).offered, 0);
}

#[test]
fn a_trace_of_more_flows_than_the_application_has_is_refused() {
    let trace = Trace::new(vec![Traced { at: Nanos(5), flow: 7, work: Nanos(1) }]);
    let app = AppPlan { trace: Some(Arc::new(trace)), flows: 7, ..AppPlan::default() };
    let refused = plan(1, app, 1.0).check().expect_err("flow 7 is the eighth").to_string();
    assert!(refused.contains("trace: flows is 8"), "{refused}");
}
