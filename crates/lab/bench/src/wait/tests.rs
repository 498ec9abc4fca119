//! Every case that needs neither root nor a daemon, in its smallest form: structure and direction,
//! never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, needs_two_cpus};

fn figures(case: &str) -> Vec<Value> {
    needs_two_cpus();
    printed::of_case(Wait {}, case)
}

fn values<'a>(figures: &'a [Value], part: &'a str) -> impl Iterator<Item = &'a Value> {
    figures
        .iter()
        .filter(move |figure| figure["metric"].as_str().is_some_and(|metric| metric.contains(part)))
}

#[test]
fn every_number_of_queues_has_its_latency_held_against_polling_and_against_one_queue() {
    let figures = figures("latency");
    // Others may have the CPUs all the time: then the bench says so, instead of figures.
    if values(&figures, "not measured").count() == 1 {
        return;
    }
    for queues in [64, 512, 4096] {
        let metric = format!("{queues} queues: p50");
        let both: Vec<_> = values(&figures, &metric).collect();
        assert_eq!(both.len(), 2, "{metric}");
        assert!(both.iter().all(|figure| figure["ratio"].as_f64() > Some(0.0)), "{both:?}");
    }
}

#[test]
fn items_flow_in_both_patterns_at_every_number_of_queues() {
    let figures = figures("throughput");
    for figure in values(&figures, "ready set") {
        assert!(figure["value"].as_f64() > Some(0.0), "{figure}");
        assert!(figure["target"].is_string(), "{figure}");
    }
}

#[test]
fn a_computation_goes_on_beside_whoever_waits() {
    for figure in values(&figures("corunner"), "beside") {
        assert!(figure["ratio"].as_f64() > Some(0.0), "{figure}");
    }
}

#[test]
fn the_tax_is_given_for_every_load_and_where_counters_are_missing_it_says_so() {
    let figures = figures("tax");
    assert_eq!(values(&figures, ": tax").count(), 18);
    assert!(values(&figures, "IPC").all(|figure| figure["note"].is_string()));
}

#[test]
fn own_and_shared_queues_finish_items_at_every_load() {
    let figures = figures("hiccup");
    for figure in values(&figures, "p99, shared") {
        assert!(figure["ratio"].as_f64() > Some(0.0), "{figure}");
    }
}
