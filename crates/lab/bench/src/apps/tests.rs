//! Every case that needs neither root nor a daemon, in its smallest form: structure and direction,
//! never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, find};

fn figures(case: &str) -> Vec<Value> {
    printed::of_case(Apps {}, case)
}

#[test]
fn packets_of_sixteen_applications_all_arrive_and_every_step_has_its_cycles() {
    let figures = figures("dispatch");
    assert_eq!(find(&figures, "packets lost, all rounds")["value"], 0.0);
    for who in ["16 apps x 4 workers", "1 app x 64 workers", "64 own workers"] {
        for step in ["receive", "transmit", "control"] {
            let figure = find(&figures, &format!("{who}: {step}, per packet"));
            assert!(figure["value"].as_f64() > Some(0.0), "{figure}");
        }
    }
    for who in ["16 apps x 4 workers", "16 apps x 4 workers, answered"] {
        let figure = find(&figures, &format!("{who}: all of the dispatcher"));
        assert!(figure["ratio"].as_f64() > Some(0.0), "{figure}");
        assert_eq!(figure["target"], "ratio >= 0.8");
    }
}
