//! Cases in their smallest form, with Linux in our place: structure, never times.

use serde_json::Value;

use super::*;

/// Figures of a rehearsal; none where namespaces need a right that we have not.
fn rehearsed(case: &str) -> Option<Vec<Value>> {
    let args = Args {
        cases: vec![case.to_owned()],
        rounds: Some(1),
        quick: true,
        breakdown: false,
        rehearse: true,
    };
    let mut out = Vec::new();
    if let Err(error) = run_to(&args, true, &mut out) {
        println!("not tried: {error}");
        return None;
    }
    let text = String::from_utf8(out).expect("JSON is text");
    println!("{text}");
    let line = |line| serde_json::from_str(line).expect("an object a line");
    let figures: Vec<Value> = text.lines().map(line).collect();
    let is_root = rustix::process::geteuid().is_root();
    is_root.then_some(figures)
}

#[test]
fn a_rehearsal_holds_linux_against_itself() {
    for (case, metric, baseline) in [
        ("passthrough", "Linux in our place: more than without", None),
        ("local", "both blocking: Linux in our place, p50", Some("loopback")),
    ] {
        let Some(figures) = rehearsed(case) else { return };
        let figure = figures.iter().find(|figure| figure["metric"] == metric);
        let figure = figure.unwrap_or_else(|| panic!("no figure is called {metric:?}"));
        assert!(figure["value"].is_number() && figure["target"].is_string(), "{figure}");
        assert_eq!(figure["baseline"]["name"].as_str(), baseline, "{figure}");
    }
}
