//! A small run with a real daemon: that connections outlive it, and that figures say so.

use super::*;
use crate::printed::{find, needs_root, needs_two_cpus, of_case, value};

#[test]
fn every_death_leaves_every_connection_whole_and_its_seed_is_printed() {
    needs_two_cpus();
    needs_root();
    let own = Outlive { connections: Some(10), per_second: 500, seed: Some(20) };
    let all = of_case(own, "all");
    for case in ["kill", "term"] {
        let of_case: Vec<_> = all.iter().filter(|one| one["case"] == case).cloned().collect();
        for metric in
            ["connections broken", "bytes lost", "bytes doubled", "not given to the kernel"]
        {
            assert_eq!(value(&of_case, metric), 0.0, "{case}: {metric}");
        }
        let figure = find(&of_case, "stall, p99");
        assert!(figure["value"].is_number() && figure["baseline"]["name"] == "no end", "{figure}");
        assert!(figure["machine"].as_str().is_some_and(|machine| machine.contains("commit")));
    }
}
