//! Cases in their smallest form: structure, never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, find, has_two_cpus, smallest, value};

fn args(case: &str) -> Args {
    Args { cases: vec![case.to_owned()], size: smallest(), cores: 2 }
}

/// Figures of a case; none where there is one CPU.
fn figures(case: &str) -> Option<Vec<Value>> {
    has_two_cpus().then(|| printed::figures(|out| run(&args(case), true, out)))
}

#[test]
fn packets_come_through_every_forwarder_that_is_here_and_absent_ones_are_named() {
    // Namespaces need a right that others have not.
    let is_root = rustix::process::geteuid().is_root();
    let Some(figures) = is_root.then(|| figures("forward")).flatten() else { return };
    for bytes in forward::FRAME_BYTES {
        for forwarder in forwarder::Forwarder::ALL {
            let figure = find(&figures, &format!("{bytes} B: {}", forwarder.name()));
            let is_absent = figure["note"].is_string();
            assert!(is_absent || figure["value"].as_f64() > Some(0.0), "{figure}");
        }
    }
}

#[test]
fn every_function_has_its_cycles_and_what_several_cores_do_of_it() {
    let (Some(cycles), Some(cores)) = (figures("cycles"), figures("cores")) else { return };
    for work in works::WORKS {
        assert!(value(&cycles, &format!("{}: per packet", work.name)) > 0.0);
        let figure = find(&cores, &format!("{}: 2 slices", work.name));
        assert!(figure["ratio"].as_f64() > Some(0.0), "{figure}");
        assert!(figure["target"].is_string(), "{figure}");
    }
}

#[test]
fn more_cores_than_there_are_is_a_line_that_says_so() {
    let cpus = crate::place::allowed().len();
    if (2..64).contains(&cpus) {
        let args = Args { cores: 64, ..args("cores") };
        let figures = printed::figures(|out| run(&args, true, out));
        let note = find(&figures, "not measured")["note"].to_string();
        assert!(note.contains(&format!("there are {cpus}")), "{note}");
    }
}
