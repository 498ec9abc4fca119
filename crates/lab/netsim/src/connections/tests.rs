//! What must hold for every server, and how throughput falls when caches overflow.

use base::Nanos;
use sim::model::Level;

use super::{ConnectionsPlan, RequestCosts, run};

fn plan(connections: u32) -> ConnectionsPlan {
    ConnectionsPlan { connections, cores: 2, requests: 10, ..ConnectionsPlan::default() }
}

/// Requests a second that the cores could do at most.
fn capacity(plan: &ConnectionsPlan) -> f64 {
    f64::from(plan.cores) * plan.cache.hertz as f64 / plan.cycles()
}

#[test]
fn one_connection_waits_for_its_round_trip_and_many_for_a_core() {
    let one = plan(1);
    let outcome = run(&one).expect("it makes sense");
    let service = Nanos((one.cycles() / 2.1).round() as u64);
    assert!(outcome.p50.0.abs_diff((one.round_trip + service).0) < 5, "{outcome:?}");
    let many = plan(500);
    let outcome = run(&many).expect("it makes sense");
    let share = outcome.throughput / capacity(&many);
    assert!((0.9..=1.001).contains(&share), "{share} of what the cores can do: {outcome:?}");
    assert!(outcome.p99 > Nanos(one.round_trip.0 * 2));
}

#[test]
fn a_request_is_one_segment_each_way_on_the_fast_path() {
    let plan = ConnectionsPlan { requests: 50, ..plan(200) };
    let outcome = run(&plan).expect("it makes sense");
    // An answer of each connection is on its way at the begin, and one at the end.
    let on_their_way = 1.0 / f64::from(plan.requests);
    let found = outcome.segments_per_request;
    assert!((found - 1.0).abs() <= on_their_way, "{outcome:?}");
    assert!(outcome.fast_share > 0.97, "{outcome:?}");
}

#[test]
fn throughput_falls_when_the_cache_no_longer_holds_all_state_and_never_below_that_of_none() {
    let mut plan = plan(300);
    let warm = run(&plan).expect("it makes sense");
    assert_eq!(warm.misses, 0.0);
    plan.cache.bytes_per_core = 300 * 700 / 2 / 4;
    let cold = run(&plan).expect("it makes sense");
    assert!((cold.misses - 0.75).abs() < 0.01, "{cold:?}");
    assert!(cold.throughput < warm.throughput * 0.5, "{cold:?}");
    let costs = plan.costs;
    let least = 2.0 * plan.cache.hertz as f64 / (costs.warm.median + costs.cold.median);
    assert!(cold.throughput > least * 0.9);
}

#[test]
fn the_kernel_is_slower_warm_and_every_cost_has_its_range_in_order() {
    for costs in [RequestCosts::CALISTO_ENGINE, RequestCosts::CALISTO_SOCKETS, RequestCosts::LINUX]
    {
        for range in [costs.warm, costs.cold, costs.state_bytes] {
            let [low, median, high] = Level::ALL.map(|level| range.at(level));
            assert!(low <= median && median <= high, "{range:?}");
        }
    }
    let of =
        |costs| run(&ConnectionsPlan { costs, ..plan(200) }).expect("it makes sense").throughput;
    assert!(of(RequestCosts::CALISTO_SOCKETS) > 1.5 * of(RequestCosts::LINUX));
}

#[test]
fn nonsense_is_refused_by_its_field() {
    assert_eq!(run(&plan(0)).expect_err("no connection").field, "connections");
    let plan = ConnectionsPlan { cores: 0, ..plan(1) };
    assert_eq!(run(&plan).expect_err("no core").field, "cores");
    let plan = ConnectionsPlan { requests: u32::MAX, ..self::plan(1000) };
    assert_eq!(plan.check().expect_err("34 GB of times").field, "requests");
}
