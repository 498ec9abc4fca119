//! What must hold on every fabric, and how congestion controls compare.

use base::Nanos;
use tcp::Algorithm;

use super::{LeafSpine, NetOutcome, NetPlan, TcpPlan, Traffic, run};
use crate::Sizes;
use crate::link::LinkPlan;

const ALL: [Algorithm; 4] =
    [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Timely];

/// Two leaves of four hosts at 1 Gbit/s.
fn small(congestion: Algorithm) -> NetPlan {
    let host_link = LinkPlan {
        rate: 1_000_000_000,
        queue_bytes: 128 << 10,
        mark_bytes: Some(20 * 1500),
        ..LinkPlan::default()
    };
    let fabric_link = LinkPlan { rate: 4_000_000_000, ..host_link };
    NetPlan {
        topology: LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 4, host_link, fabric_link },
        tcp: TcpPlan { congestion, ..TcpPlan::default() },
        traffic: Traffic::Arriving { flows: 60, sizes: Sizes::web_search(100), load: 0.5 },
        ..NetPlan::default()
    }
}

/// Four hosts send to one without end.
fn squeeze(congestion: Algorithm) -> NetPlan {
    let link = LinkPlan {
        rate: 1_000_000_000,
        delay: Nanos::from_micros(20),
        queue_bytes: 256 << 10,
        mark_bytes: Some(20 * 1500),
        ..LinkPlan::default()
    };
    let traffic = Traffic::Incast { senders: 4, bytes: 6_000_000, spread: Nanos::from_micros(100) };
    NetPlan {
        topology: LeafSpine::one_switch(5, link),
        traffic,
        tcp: TcpPlan { congestion, ..TcpPlan::default() },
        ..NetPlan::default()
    }
}

fn check(plan: &NetPlan, seed: u64) -> NetOutcome {
    let outcome = run(plan, seed).expect("the plan makes sense");
    assert_eq!(outcome.wrong_bytes, 0, "every byte is read as it was written");
    let gone = outcome.links.dropped + outcome.links.lost;
    assert_eq!(
        outcome.segments,
        outcome.segments_received + gone + outcome.on_their_way,
        "a packet has arrived, is on its way, or its end was counted"
    );
    outcome
}

fn all_complete(plan: &NetPlan, seed: u64) -> NetOutcome {
    let outcome = check(plan, seed);
    for flow in &outcome.flows {
        assert_eq!((Some(flow.received), flow.took.is_some()), (flow.bytes, true), "{flow:?}");
    }
    outcome
}

#[test]
fn every_flow_completes_with_every_byte_whatever_the_congestion_control() {
    for congestion in ALL {
        let outcome = all_complete(&small(congestion), 5);
        assert!(outcome.completion(0.5) <= outcome.completion(0.99));
        // Beginnings and ends are not on it, and these flows are short.
        let share = outcome.fast as f64 / outcome.segments_received as f64;
        assert!(share > 0.33, "{congestion:?}: {share} on the fast path");
        assert_eq!((outcome.links.dropped, outcome.timeouts), (0, 0), "there is room for all");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    let plan = small(Algorithm::Cubic);
    let outcome = all_complete(&plan, 5);
    assert_eq!(outcome, all_complete(&plan, 5));
    assert_ne!(outcome.digest, all_complete(&plan, 6).digest);
}

#[test]
fn flows_complete_over_links_that_lose_and_overtake() {
    for congestion in ALL {
        let mut plan = small(congestion);
        let weather = |link| LinkPlan {
            lost_ppm: 3_000,
            late_ppm: 10_000,
            late_by: Nanos::from_micros(200),
            ..link
        };
        plan.topology.host_link = weather(plan.topology.host_link);
        plan.topology.fabric_link = weather(plan.topology.fabric_link);
        let outcome = all_complete(&plan, 7);
        assert!(outcome.links.lost > 0 && outcome.links.late > 0 && outcome.retransmitted > 0);
    }
}

#[test]
fn dctcp_keeps_the_queue_shorter_than_new_reno_and_loses_nothing_where_that_does() {
    let reno = all_complete(&squeeze(Algorithm::NewReno), 1);
    let dctcp = all_complete(&squeeze(Algorithm::Dctcp), 1);
    assert!(
        3 * dctcp.edge.quantile(0.9) < reno.edge.quantile(0.9),
        "{} {}",
        dctcp.edge.quantile(0.9),
        reno.edge.quantile(0.9)
    );
    assert!(reno.links.dropped > 0 && reno.links.marked == 0);
    assert!(dctcp.links.dropped == 0 && dctcp.links.marked > 0);
    // A short queue costs no throughput.
    let (fast, slow) = (dctcp.makespan().expect("all ended"), reno.makespan().expect("all ended"));
    assert!(fast.0 * 10 < slow.0 * 11, "{fast} {slow}");
}

#[test]
fn equal_flows_through_one_link_fill_it_and_get_fair_shares() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp] {
        let mut plan = squeeze(congestion);
        let (from, until) = (Nanos::from_millis(100), Nanos::from_millis(400));
        // One from and one to each of the five.
        plan.traffic = Traffic::Lasting { flows: 20, spread: Nanos::from_millis(1), from, until };
        let outcome = check(&plan, 3);
        let fairness = outcome.fairness().expect("somebody got something");
        assert!(fairness > 0.75, "{congestion:?}: {fairness}");
        let share = outcome.goodput(until - from) / 5e9;
        assert!((0.8..0.96).contains(&share), "{congestion:?}: {share} of all links");
    }
}

#[test]
fn incast_overflows_a_short_queue_and_all_answers_come_in_the_end() {
    let mut plan = NetPlan::incast(40, 30_000, Algorithm::Dctcp);
    plan.topology.host_link.queue_bytes = 64 << 10;
    let outcome = all_complete(&plan, 1);
    assert!(outcome.links.dropped > 0 && outcome.retransmitted > 0);
    assert!(outcome.edge.deepest() <= 64 << 10);
    let deepest = outcome.over_time.iter().map(|look| look.deepest).max();
    assert!(deepest.is_some_and(|bytes| bytes > 32 << 10), "{deepest:?}");
    // 1.2 MB at 10 Gbit/s take a millisecond at least.
    assert!(outcome.makespan() > Some(Nanos::from_micros(960)));
}

#[test]
fn nonsense_is_refused_by_its_field() {
    let mut plans = vec![("load", small(Algorithm::Cubic)); 4];
    plans[0].1.traffic = Traffic::Arriving { flows: 1, sizes: Sizes::Exactly(1), load: 1.5 };
    plans[1] = ("senders", NetPlan::incast(9, 1, Algorithm::Cubic));
    plans[1].1.topology.hosts_per_leaf = 5;
    plans[2].0 = "spines";
    plans[2].1.topology.spines = 0;
    plans[3].0 = "ring_log2";
    plans[3].1.tcp.ring_log2 = 60;
    for (field, plan) in plans {
        assert_eq!(run(&plan, 1).expect_err(field).field, field);
    }
}

#[test]
fn rings_and_looks_that_no_memory_holds_are_refused() {
    let mut plan = NetPlan::incast(256, 1000, Algorithm::default());
    plan.tcp.ring_log2 = 24;
    assert_eq!(plan.check().expect_err("4 GiB of rings").field, "ring_log2");
    let hour = Nanos::from_secs(3600);
    let plan =
        NetPlan { time_limit: hour, look_every: Nanos::from_micros(1), ..NetPlan::default() };
    assert_eq!(plan.check().expect_err("3.6e9 looks").field, "look_every");
}
