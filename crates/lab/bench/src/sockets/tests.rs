//! Cases in their smallest form, with Linux in our place: structure, never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, find, needs_root, needs_two_cpus};

/// Figures of a rehearsal.
fn rehearsed(case: &str) -> Vec<Value> {
    needs_two_cpus();
    needs_root();
    printed::of_case(Sockets { breakdown: false, rehearse: true }, case)
}

#[test]
fn a_rehearsal_holds_linux_against_itself() {
    for (case, metric, baseline) in [
        ("passthrough", "Linux in our place: more than without", None),
        ("local", "both blocking: Linux in our place, p50", Some("loopback")),
    ] {
        let figures = rehearsed(case);
        let figure = find(&figures, metric);
        assert!(figure["value"].is_number() && figure["target"].is_string(), "{figure}");
        assert_eq!(figure["baseline"]["name"].as_str(), baseline, "{figure}");
    }
}
