//! Every case that needs neither root nor a daemon, in its smallest form: structure and direction,
//! never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, find, value};

fn figures(case: &str) -> Vec<Value> {
    printed::of_case(Tcp {}, case)
}

#[test]
fn every_server_answers_every_request_of_the_same_client() {
    for kind in [RpcKind::Rpc, RpcKind::RpcIpv4, RpcKind::RpcSmoltcp, RpcKind::RpcSmoltcpPlain] {
        let counted = kind.converse(200).expect("nothing is lost in memory");
        assert_eq!(counted.is_some(), matches!(kind, RpcKind::Rpc | RpcKind::RpcIpv4), "{kind:?}");
    }
}

#[test]
fn a_response_carries_its_acknowledgement_and_takes_the_fast_path() {
    let figures = figures("rpc");
    assert_eq!(find(&figures, "segments on the fast path")["met"], true);
    assert_eq!(value(&figures, "segments out per request in"), 1.0);
}

#[test]
fn each_request_of_many_flows_gets_one_segment_whatever_the_batch() {
    let figures = figures("flows");
    for batch in [1, 32, 64] {
        let figure = find(&figures, &format!("10000 flows, batch {batch}"));
        assert_eq!(figure["baseline"]["name"], "100 flows", "{figure}");
        assert_eq!(figure["target"].is_string(), batch >= 32, "{figure}");
    }
    assert_eq!(find(&figures, "10000 flows, segments on the fast path")["met"], true);
}

#[test]
fn every_connection_that_is_opened_in_memory_ends_at_both_sides() {
    let figures = figures("connections");
    assert!(value(&figures, "engine, two sides on one core") > 0.0);
    assert!(value(&figures, "in TIME-WAIT at the end") > 1000.0);
}

#[test]
fn a_flood_takes_no_flow_and_no_record_beyond_the_backlog() {
    let figures = figures("flood");
    for metric in ["flows in use at most", "records of segments at most"] {
        assert_eq!(find(&figures, metric)["met"], true, "{metric}");
    }
    assert!(value(&figures, "SYNs answered with cookies") > 10_000.0);
    assert!(value(&figures, "requests answered during the flood") > 0.0);
}
