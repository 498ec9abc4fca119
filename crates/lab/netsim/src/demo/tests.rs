//! What the demo shows, and that the prediction follows from its costs alone.

use std::net::SocketAddr;

use base::Nanos;
use sim::model::Range;

use super::{DemoPlan, Latency, Moves, RoundTrips, run};

fn flows(count: u16) -> Vec<(SocketAddr, SocketAddr)> {
    let flow = |number| (([10, 77, 0, 1], 20_000 + number).into(), ([10, 77, 0, 2], 7).into());
    (0..count).map(flow).collect()
}

fn plan() -> DemoPlan {
    let mut plan =
        DemoPlan { length: Nanos::from_millis(300), groups: 4096, ..DemoPlan::default() };
    plan.acts.iter_mut().for_each(|act| act.flows = flows(1000));
    plan
}

#[test]
fn modulo_moves_four_fifths_of_the_flows_and_sticky_one_fifth_each_way() {
    let outcomes = run(&plan()).expect("it makes sense");
    let shares =
        |moves: &Moves| [moves.up(), moves.down()].map(|moved| moved as f64 / moves.flows() as f64);
    for share in shares(&outcomes[0].moves) {
        assert!((0.74..0.86).contains(&share), "modulo moves {share}");
    }
    for share in shares(&outcomes[1].moves) {
        assert!((0.14..0.26).contains(&share), "sticky moves {share}");
    }
}

#[test]
fn under_sticky_flows_move_to_the_worker_that_came_and_from_it_when_it_goes_and_no_others() {
    let mut plan = plan();
    plan.acts.remove(0);
    let [before, more, after] = &run(&plan).expect("it makes sense")[0].moves.owners;
    for ((before, more), after) in before.iter().zip(more).zip(after) {
        assert!(before == more || *more == Some(4), "whoever moves goes to the worker that came");
        assert_eq!(more != after, *more == Some(4), "when it goes, its flows move and no other");
    }
}

#[test]
fn the_same_plan_moves_the_same_flows_and_another_hash_key_others() {
    let plan = plan();
    let outcome = run(&plan).expect("it makes sense");
    assert_eq!(outcome, run(&plan).expect("it makes sense"));
    let other = run(&DemoPlan { seed: 2, ..plan }).expect("it makes sense");
    assert_ne!(outcome[0].moves, other[0].moves);
}

fn latency(rate: f64) -> Latency {
    let mut plan = DemoPlan { rate, ..plan() };
    plan.acts.truncate(1);
    let always = |nanos| RoundTrips::of(vec![Range::exactly(Nanos(nanos))]);
    plan.costs.awake = always(10_000);
    plan.costs.worker_asleep = always(20_000);
    plan.costs.both_asleep = always(50_000);
    run(&plan).expect("it makes sense")[0].latency
}

#[test]
fn a_rare_request_wakes_both_and_of_frequent_ones_each_finds_everybody_awake() {
    let rare = latency(500.0);
    assert_eq!(rare.p50, Nanos(50_000));
    assert!(rare.found[2] > 0.9, "{rare:?}");
    let frequent = latency(60_000.0);
    assert!(frequent.found[2] < 0.05 && frequent.found[0] > 0.5, "{frequent:?}");
    // Poisson's gaps are longer than 50 us once in e at 20,000 a second, and a worker has one in
    // four requests.
    let between = latency(20_000.0);
    assert!((0.2..0.45).contains(&between.found[2]), "{between:?}");
    assert!(between.found[1] > between.found[0], "{between:?}");
    let median = Nanos(20_000)..Nanos(30_000);
    assert!(
        median.contains(&between.p50),
        "a worker's wake, and now and then somebody else's: {between:?}"
    );
}

#[test]
fn half_of_all_requests_may_take_what_the_slow_ones_of_one_kind_take() {
    let mut plan = plan();
    plan.acts.truncate(1);
    let likely = |nanos: [u64; 4]| RoundTrips::of(nanos.map(|n| Range::exactly(Nanos(n))).to_vec());
    // A third finds both asleep and takes longest: of the rest three quarters are within half of
    // all.
    plan.costs.awake = likely([10_000, 11_000, 12_000, 19_000]);
    plan.costs.worker_asleep = plan.costs.awake.clone();
    plan.costs.both_asleep = likely([50_000; 4]);
    let latency = run(&plan).expect("it makes sense")[0].latency;
    assert!((0.25..0.5).contains(&latency.found[2]), "{latency:?}");
    assert_eq!(latency.p50, Nanos(19_000), "and not the median of who finds somebody awake");
}

#[test]
fn wakes_count_as_load_too() {
    let mut plan = DemoPlan { rate: 100_000.0, workers: 63, ..plan() };
    plan.acts.truncate(1);
    let always = |nanos| RoundTrips::of(vec![Range::exactly(Nanos(nanos))]);
    plan.costs.awake = always(10_000);
    plan.costs.worker_asleep = always(18_000);
    // 3.56 us of work each, and nearly each wakes one of many workers.
    let latency = run(&plan).expect("it makes sense")[0].latency;
    assert!(latency.found[1] > 0.8 && latency.load > 0.9, "{latency:?}");
}

#[test]
fn more_requests_than_the_server_can_do_are_told_apart_from_a_long_way() {
    assert!(latency(2_000.0).load < 0.1);
    assert!(latency(20_000.0).load < 0.7, "every third wakes both, which takes 40 us");
    assert!(latency(400_000.0).load > 1.0, "3.56 us each");
}

#[test]
fn nonsense_is_refused_by_its_field() {
    let refused = |plan: DemoPlan| run(&plan).expect_err("it makes no sense").field;
    assert_eq!(refused(DemoPlan::default()), "flows");
    assert_eq!(refused(DemoPlan { workers: 0, ..plan() }), "workers");
    let endless = DemoPlan { rate: 1e6, length: Nanos::from_secs(3600), ..plan() };
    assert_eq!(refused(endless), "length");
    let mut unknown = plan();
    unknown.acts[1].policy = "modula".to_owned();
    assert_eq!(refused(unknown), "policies");
}
