//! Cases in their smallest form: structure, never times.

use serde_json::Value;

use super::*;

/// Figures of a case; none where namespaces need a right that we have not.
fn figures(case: &str) -> Option<Vec<Value>> {
    let args = Args { cases: vec![case.to_owned()], rounds: Some(1), quick: true };
    let mut out = Vec::new();
    if let Err(error) = run_to(&args, true, &mut out) {
        println!("not tried: {error}");
        return None;
    }
    let text = String::from_utf8(out).expect("JSON is text");
    println!("{text}");
    let line = |line| serde_json::from_str(line).expect("an object a line");
    let figures: Vec<Value> = text.lines().map(line).collect();
    rustix::process::geteuid().is_root().then_some(figures)
}

#[test]
fn packets_come_through_every_forwarder_that_is_here_and_absent_ones_are_named() {
    let Some(figures) = figures("forward") else { return };
    for bytes in forward::FRAME_BYTES {
        for forwarder in forwarder::Forwarder::OTHERS {
            let metric = format!("{bytes} B: {}", forwarder.name());
            let figure = figures.iter().find(|figure| figure["metric"] == metric.as_str());
            let figure = figure.unwrap_or_else(|| panic!("no figure is called {metric:?}"));
            let is_absent = figure["note"].is_string();
            assert!(is_absent || figure["value"].as_f64() > Some(0.0), "{figure}");
        }
    }
}
