//! Every case that needs neither root nor DPDK, in its smallest form: structure and direction,
//! never times.

use serde_json::Value;

use super::*;
use crate::error::Error;
use crate::printed::{self, find, value};
use crate::report::{Form, Report};

fn figures(case: &str) -> Vec<Value> {
    printed::of_case(Steer {}, case)
}

#[test]
fn sticky_moves_less_than_modulo_and_calisto_nothing() {
    let figures = figures("moves");
    for change in ["4->5", "9->10"] {
        let moved = |policy: &str| value(&figures, &format!("{policy} {change} moved"));
        assert!(moved("sticky") < moved("modulo") / 2.0, "{change}");
        assert_eq!(moved("calisto"), 0.0, "{change}");
        assert!(moved("hybrid (warm)") < moved("hybrid"), "{change}");
        for policy in ["modulo", "sticky", "calisto"] {
            assert_eq!(
                find(&figures, &format!("{policy} {change} moved"))["met"],
                true,
                "{policy} {change}"
            );
        }
    }
    for (policy, _) in policy::steer::NAMES {
        let named = figures.iter().filter(|figure| {
            figure["metric"].as_str().is_some_and(|metric| metric.starts_with(policy))
        });
        assert!(named.count() > 0, "{policy} is missing");
    }
}

#[test]
fn the_cost_of_first_and_later_packets_is_given_for_both_tables_of_ours() {
    let figures = figures("cost");
    for metric in [
        "owner table first packet",
        "owner table later packet",
        "hashbrown first packet",
        "hashbrown later packet",
    ] {
        assert!(value(&figures, metric) > 0.0, "{metric}");
    }
    // With DPDK there is a baseline, without it a line that says so.
    let paper = figures.iter().find(|figure| {
        figure["metric"].as_str().is_some_and(|metric| metric.starts_with("rte_hash"))
    });
    let paper = paper.expect("rte_hash is measured or said to be absent");
    assert!(paper["value"].is_number() || paper["note"].is_string(), "{paper}");
}

#[test]
fn a_table_change_under_load_loses_and_reorders_nothing() {
    let figures = figures("table");
    // Fused, no scheduling of threads can make a ring overflow.
    assert_eq!(value(&figures, "fused: packets lost, all rounds"), 0.0);
    assert_eq!(value(&figures, "fused: packets reordered, all rounds"), 0.0);
    assert!(value(&figures, "fused: offered") > 1.0);
}

#[test]
fn packets_flow_and_every_step_of_their_way_has_its_cycles() {
    let figures = figures("rate");
    for metric in ["classify + dispatch + ring push", "receive to ring push per packet"] {
        assert!(value(&figures, metric) > 0.0, "{metric}");
    }
}

#[test]
fn a_case_that_cannot_be_run_is_a_line_and_not_an_end() {
    let mut out = Vec::new();
    let mut report = Report::new("steer", Form::Json, &mut out);
    report.begin("echo", "").expect("memory takes everything");
    let error = Error::Needs { what: "pair of namespaces", why: "not root".to_owned() };
    report.not_measured(&error).expect("memory takes everything");
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("no pair of namespaces: not root"), "{text}");
}
