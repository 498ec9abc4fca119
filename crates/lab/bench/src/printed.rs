//! What a bench prints, as its tests read it: the figures of a case in its smallest form.

use serde_json::Value;

use crate::cases::{Args, Bench};

/// The figures of a case in one short round.
pub(crate) fn of_case<B: Bench>(own: B, case: &str) -> Vec<Value> {
    let mut out = Vec::new();
    let args =
        Args { cases: vec![case.to_owned()], rounds: Some(1), quick: true, markdown: false, own };
    args.run(true, &mut out).expect("memory takes every line");
    let text = String::from_utf8(out).expect("JSON is text");
    println!("{text}");
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

/// The first figure of that name.
pub(crate) fn find<'a>(figures: &'a [Value], metric: &str) -> &'a Value {
    let found = figures.iter().find(|figure| figure["metric"] == metric);
    found.unwrap_or_else(|| panic!("no figure is called {metric:?}"))
}

/// Its value.
pub(crate) fn value(figures: &[Value], metric: &str) -> f64 {
    find(figures, metric)["value"].as_f64().unwrap_or_else(|| panic!("{metric:?} has no value"))
}

/// On a machine with one CPU some cases only say that they need another, which tests nothing.
pub(crate) fn needs_two_cpus() {
    assert!(crate::place::Cpus::choose().are_two(), "this test needs a second CPU");
}

/// Namespaces are made by root alone.
pub(crate) fn needs_root() {
    assert!(rustix::process::geteuid().is_root(), "this test makes namespaces: run it as root");
}
