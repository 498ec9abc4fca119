//! The whole data path under links and worker steps that try it.

use base::Nanos;
use tcp::Algorithm;

use super::{WholeOutcome, WholePlan, WorkerStep, run};
use crate::link::LinkPlan;

fn small() -> WholePlan {
    let worker_step = |millis, workers| WorkerStep { at: Nanos::from_millis(millis), workers };
    WholePlan {
        clients: 3,
        connections: 5,
        requests: 30,
        request_bytes: 3000,
        groups: 128,
        worker_steps: vec![
            worker_step(0, 2),
            worker_step(1, 3),
            worker_step(2, 1),
            worker_step(3, 3),
        ],
        ..WholePlan::default()
    }
}

fn check(plan: &WholePlan, seed: u64) -> WholeOutcome {
    let outcome = run(plan, seed).expect("the plan makes sense");
    assert_eq!(outcome.wrong_bytes, 0, "an answer is its request");
    assert_eq!(outcome.latencies.len() as u64, outcome.requests, "every request has its answer");
    outcome
}

#[test]
fn every_answer_is_its_request_while_workers_come_and_go_with_the_flows() {
    let outcome = check(&small(), 1);
    assert!(outcome.flows_moved > 5, "{} flows moved", outcome.flows_moved);
    assert_eq!((outcome.links.dropped, outcome.port_full), (0, 0));
    assert!(outcome.latency(0.5) <= outcome.latency(0.99));
    assert!(outcome.latency(0.0) > Some(Nanos::from_micros(4)), "four links of a microsecond each");
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte_and_another_another() {
    let mut plan = small();
    plan.client_link.lost_ppm = 5_000;
    let outcome = check(&plan, 1);
    assert_eq!(outcome, check(&plan, 1));
    assert_ne!(outcome.digest, check(&plan, 2).digest);
}

#[test]
fn every_answer_is_its_request_over_links_that_lose_and_overtake() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Timely] {
        let mut plan = WholePlan { congestion, ..small() };
        plan.client_link = LinkPlan {
            lost_ppm: 10_000,
            late_ppm: 20_000,
            late_by: Nanos::from_micros(100),
            ..plan.client_link
        };
        let outcome = check(&plan, 3);
        assert!(outcome.links.lost > 0 && outcome.retransmitted > 0, "{congestion:?}");
    }
}

#[test]
fn a_slow_link_to_the_data_path_marks_and_dctcp_heeds() {
    let mut plan =
        WholePlan { congestion: Algorithm::Dctcp, request_bytes: 60_000, requests: 5, ..small() };
    plan.server_link =
        LinkPlan { rate: 1_000_000_000, mark_bytes: Some(20_000), ..plan.server_link };
    let outcome = check(&plan, 1);
    assert!(outcome.links.marked > 0);
    let heeded = outcome.server.iter().find(|(name, _)| *name == "marked");
    assert!(heeded.is_some_and(|(_, count)| *count > 0), "{:?}", outcome.server);
}

#[test]
fn nonsense_is_refused_by_its_field() {
    for (plan, field) in [
        (WholePlan { clients: 0, ..small() }, "clients"),
        (WholePlan { groups: 100, ..small() }, "groups"),
        (WholePlan { worker_steps: Vec::new(), ..small() }, "crews"),
        (WholePlan { policy: "modula".to_owned(), ..small() }, "policy"),
    ] {
        assert_eq!(run(&plan, 1).expect_err(field).field, field);
    }
}

#[test]
fn a_worker_step_for_which_there_are_not_enough_numbers_is_said_to_lack_workers() {
    assert_eq!(check(&small(), 1).workers_missing, 0);
    let worker_step = |nanos, workers| WorkerStep { at: Nanos(nanos), workers };
    // Workers that leave have not gone a nanosecond later.
    let worker_steps =
        vec![worker_step(0, 40), worker_step(1_000_000, 1), worker_step(1_000_001, 40)];
    let outcome = check(&WholePlan { worker_steps, ..small() }, 1);
    assert!((1..40).contains(&outcome.workers_missing), "{}", outcome.workers_missing);
}

#[test]
fn connections_and_requests_that_no_memory_holds_are_refused() {
    let plan = WholePlan { clients: 1000, connections: 10_000, ..small() };
    assert_eq!(run(&plan, 1).expect_err("10 TB of rings").field, "connections");
    let plan = WholePlan { requests: u32::MAX, ..small() };
    assert_eq!(run(&plan, 1).expect_err("515 GB of times").field, "requests");
}
