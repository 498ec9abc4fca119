//! Cases in their smallest form, with Linux in our place: structure, never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, find, has_two_cpus, smallest};

/// Figures of a rehearsal; none where there is one CPU or namespaces need a right that we have not.
fn rehearsed(case: &str) -> Option<Vec<Value>> {
    if !has_two_cpus() || !rustix::process::geteuid().is_root() {
        println!("not tried: it needs root and a second CPU");
        return None;
    }
    let args =
        Args { cases: vec![case.to_owned()], size: smallest(), breakdown: false, rehearse: true };
    Some(printed::figures(|out| run(&args, true, out)))
}

#[test]
fn a_rehearsal_holds_linux_against_itself() {
    for (case, metric, baseline) in [
        ("passthrough", "Linux in our place: more than without", None),
        ("local", "both blocking: Linux in our place, p50", Some("loopback")),
    ] {
        let Some(figures) = rehearsed(case) else { return };
        let figure = find(&figures, metric);
        assert!(figure["value"].is_number() && figure["target"].is_string(), "{figure}");
        assert_eq!(figure["baseline"]["name"].as_str(), baseline, "{figure}");
    }
}
