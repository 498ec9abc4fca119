//! Cases in their smallest form: structure, never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, find, has_two_cpus, smallest};

/// Figures of a case; none where there is one CPU or namespaces need a right that we have not.
fn figures(case: &str) -> Option<Vec<Value>> {
    if !has_two_cpus() || !rustix::process::geteuid().is_root() {
        println!("not tried: it needs root and a second CPU");
        return None;
    }
    let args = Args { cases: vec![case.to_owned()], size: smallest() };
    Some(printed::figures(|out| run(&args, true, out)))
}

#[test]
fn packets_come_through_every_forwarder_that_is_here_and_absent_ones_are_named() {
    let Some(figures) = figures("forward") else { return };
    for bytes in forward::FRAME_BYTES {
        for forwarder in forwarder::Forwarder::OTHERS {
            let metric = format!("{bytes} B: {}", forwarder.name());
            let figure = find(&figures, &metric);
            let is_absent = figure["note"].is_string();
            assert!(is_absent || figure["value"].as_f64() > Some(0.0), "{figure}");
        }
    }
}
