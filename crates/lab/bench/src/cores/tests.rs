//! Every case that needs neither root nor a daemon, in its smallest form: structure and direction,
//! never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, find, needs_two_cpus};

fn figures(case: &str) -> Vec<Value> {
    printed::of_case(Cores {}, case)
}

#[test]
fn a_look_at_more_workers_takes_longer_and_its_parts_are_no_longer_than_the_whole() {
    needs_two_cpus();
    let figures = figures("tick");
    let value = |metric: &str| find(&figures, metric)["value"].as_f64().expect(metric);
    assert!(value("2 active workers") < value("256 active workers"));
    for workers in [2, 64, 256] {
        let whole = value(&format!("{workers} active workers"));
        assert!(value(&format!("{workers} active workers: gather")) <= whole);
        let interval = format!("{workers} active workers: interval in force");
        assert_eq!(find(&figures, &interval)["target"], "ratio >= 10");
    }
}

#[test]
fn granted_and_reclaimed_cores_are_held_against_bare_system_calls_of_the_same_round() {
    needs_two_cpus();
    let granted = figures("grant");
    let halted = find(&granted, "halted CPU, p50");
    assert_eq!(halted["baseline"]["name"], "bare futex wake");
    assert!(halted["ratio"].as_f64() > Some(0.0), "{halted}");
    assert!(find(&granted, "worker still spinning, p50")["value"].as_f64() > Some(0.0));
    let reclaimed = figures("reclaim");
    let idle = find(&reclaimed, "from a SCHED_IDLE job, p50");
    assert!(idle["ratio"].as_f64() > Some(0.0), "{idle}");
}
