//! The disciplines against theory, and against what their papers say.

use super::*;
use crate::closed_form;

const MEAN: Nanos = Nanos::from_micros(10);

fn plan(servers: u32, load: f64, service: Distribution, discipline: Discipline) -> Plan {
    Plan {
        servers,
        gap: Nanos((MEAN.0 as f64 / load / f64::from(servers)).round() as u64),
        service,
        service_mean: MEAN,
        long_above: MEAN,
        discipline,
        quantum: Nanos::FAR_FUTURE,
        preemption: Nanos::ZERO,
        hand_off: Nanos::ZERO,
        pause: Nanos::ZERO,
        requests: 400_000,
    }
}

/// The mean time in the system, in units of the mean service time.
fn mean(plan: &Plan) -> f64 {
    let served = plan.run(7);
    assert!(!served.is_saturated, "{plan:?}");
    assert_eq!(served.arrived, served.left + served.there, "nobody is lost");
    served.all.mean_ns() / MEAN.0 as f64
}

fn is_near(found: f64, expected: f64, by: f64) {
    assert!((found / expected - 1.0).abs() < by, "{found}, expected {expected}");
}

#[test]
fn one_queue_makes_wait_as_erlang_says() {
    for (servers, load) in [(1, 0.7), (10, 0.8)] {
        let plan = plan(servers, load, Distribution::Exponential, Discipline::Bounded(1));
        let wait = closed_form::mmn_mean_wait(servers, load * f64::from(servers));
        is_near(mean(&plan), 1.0 + wait, 0.03);
    }
}

#[test]
fn two_choices_are_as_good_as_the_limit_of_many_servers_says_and_one_is_a_queue_each() {
    let of =
        |load, choices| plan(100, load, Distribution::Exponential, Discipline::Choices(choices));
    // Mitzenmacher (1996): the sum over i of load to the power (2^i - 2).
    let expected: f64 = (1..12).map(|i| 0.9_f64.powi((1 << i) - 2)).sum();
    is_near(mean(&of(0.9, 2)), expected, 0.05);
    is_near(mean(&of(0.8, 1)), 5.0, 0.05);
}

#[test]
fn with_short_quanta_the_mean_depends_on_the_load_alone() {
    // Processor sharing: 1 / (1 - load), whatever the distribution.
    for service in [Distribution::Exponential, Distribution::Bimodal1] {
        let one = plan(1, 0.7, service, Discipline::Bounded(1));
        let shared = Plan { quantum: Nanos(500), requests: 200_000, ..one };
        is_near(mean(&shared), 1.0 / 0.3, 0.08);
    }
}

#[test]
fn a_second_request_at_the_server_hides_the_way_to_it() {
    // Of 13 us for each request ten cores do 0.77 of the load that takes 10.
    let of = |bound| Plan {
        hand_off: Nanos::from_micros(3),
        ..plan(10, 0.9, Distribution::Exponential, Discipline::Bounded(bound))
    };
    assert!(of(1).run(3).is_saturated);
    assert!(!of(2).run(3).is_saturated);
}

#[test]
fn who_looks_only_now_and_then_adds_half_a_pause_to_the_wait() {
    // M/G/1 with vacations of one length (Levy and Yechiali, 1975).
    for service in [Distribution::Exponential, Distribution::Constant] {
        let pause = Nanos::from_micros(40);
        let napping = Plan { pause, ..plan(1, 0.5, service, Discipline::Bounded(1)) };
        let scv = if service == Distribution::Constant { 0.0 } else { 1.0 };
        is_near(mean(&napping), 1.0 + closed_form::mg1_mean_wait(0.5, scv) + 2.0, 0.03);
    }
}

#[test]
fn servers_reserved_for_short_requests_keep_them_from_waiting_for_long_ones() {
    let of = |discipline| plan(16, 0.8, Distribution::Bimodal2, discipline).run(5);
    let share = 0.999 * 0.5;
    let reserved = of(Discipline::Reserved(reserved_for(16, share)));
    let common = of(Discipline::Bounded(1));
    let p999 = |served: &Served| served.short.quantile(0.999);
    assert!(p999(&reserved).0 * 10 < p999(&common).0, "{reserved:?} {common:?}");
    assert!(!reserved.is_saturated);
    assert_eq!(reserved.arrived, reserved.left + reserved.there);
}

#[test]
fn what_giving_way_costs_is_paid_and_where_nobody_waits_nobody_gives_way() {
    let of = |load, preemption| Plan {
        quantum: Nanos::from_micros(5),
        preemption,
        ..plan(4, load, Distribution::Exponential, Discipline::Bounded(1))
    };
    let (free, dear) = (of(0.8, Nanos::ZERO), of(0.8, Nanos(1000)));
    assert!(mean(&dear) > 1.1 * mean(&free));
    let rare = of(0.01, Nanos(1000)).run(1);
    assert!(rare.preemptions < rare.left / 100, "{rare:?}");
    let one = of(0.8, Nanos(1000));
    assert_eq!(one.run(4).all, one.run(4).all, "the same seed gives the same");
}

#[test]
fn darc_reserves_by_the_share_of_work_and_leaves_some_to_the_others() {
    for (servers, share, expected) in
        [(16, 0.45, 7), (16, 0.001, 1), (16, 0.999, 15), (1, 0.5, 0), (2, 0.9, 1)]
    {
        assert_eq!(reserved_for(servers, share), expected, "{servers} {share}");
    }
}

#[test]
fn the_shortest_of_some_is_the_shortest_of_those_that_were_drawn() {
    let lengths = [5, 4, 3, 2];
    let mut lots = [0, 0, 1].into_iter();
    assert_eq!(shortest_of(&lengths, 2, |_| lots.next().expect("three lots are enough")), 1);
    assert_eq!(shortest(lengths.into_iter(), 3), Some(3));
    assert_eq!(shortest(lengths.into_iter(), 2), None);
}
