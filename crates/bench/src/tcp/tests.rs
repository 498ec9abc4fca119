//! Every case that needs neither root nor a daemon, in its smallest form: structure and direction,
//! never times.

use serde_json::Value;

use super::*;
use guest::Kind;

fn figures(case: &str) -> Vec<Value> {
    let args = Args {
        cases: vec![case.to_owned()],
        rounds: Some(1),
        quick: true,
        guest: GuestArgs::default(),
    };
    let mut out = Vec::new();
    run_to(&args, true, &mut out).expect("memory takes every line");
    let text = String::from_utf8(out).expect("JSON is text");
    println!("{text}");
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn find<'a>(figures: &'a [Value], metric: &str) -> &'a Value {
    let found = figures.iter().find(|figure| figure["metric"] == metric);
    found.unwrap_or_else(|| panic!("no figure is called {metric:?}"))
}

fn value(figures: &[Value], metric: &str) -> f64 {
    find(figures, metric)["value"].as_f64().unwrap_or_else(|| panic!("{metric:?} has no value"))
}

#[test]
fn every_server_answers_every_request_of_the_same_client() {
    for kind in [Kind::Rpc, Kind::RpcIpv4, Kind::RpcSmoltcp, Kind::RpcSmoltcpPlain] {
        let talk = rpc::converse_as(kind, 200).expect("nothing is lost in memory");
        assert!(talk.responses >= 200, "{kind:?}: {}", talk.responses);
        assert_eq!(talk.counted.is_some(), matches!(kind, Kind::Rpc | Kind::RpcIpv4), "{kind:?}");
    }
}

#[test]
fn a_response_carries_its_acknowledgement_and_takes_the_fast_path() {
    let figures = figures("rpc");
    assert_eq!(find(&figures, "segments on the fast path")["met"], true);
    assert_eq!(value(&figures, "segments out per request in"), 1.0);
}
