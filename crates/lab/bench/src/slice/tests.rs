//! Cases in their smallest form: structure, never times.

use serde_json::Value;

use super::*;
use crate::printed::{self, find, needs_root, needs_two_cpus, value};

fn own() -> Slice {
    Slice { cores: 2, table: None }
}

fn figures(case: &str) -> Vec<Value> {
    needs_two_cpus();
    printed::of_case(own(), case)
}

#[test]
fn packets_come_through_every_forwarder_that_is_here_and_absent_ones_are_named() {
    needs_root();
    let figures = figures("forward");
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
    let (cycles, cores) = (figures("cycles"), figures("cores"));
    let functions = ["l2, 64 B", "l2, 1514 B", "router IPv6, 64 B", "acl, 16 rules, 64 B"];
    for function in functions.into_iter().chain(["policer, sources, 64 B"]) {
        assert!(value(&cycles, &format!("{function}: per packet")) > 0.0, "{function}");
        let figure = find(&cores, &format!("{function}: 2 slices"));
        assert!(figure["ratio"].as_f64() > Some(0.0), "{figure}");
        assert!(figure["target"].is_string(), "{figure}");
    }
    for (function, unit) in [
        ("firewall, 100,000 connections", "per packet"),
        ("nat, 100,000 connections", "per packet"),
        ("firewall, new connections", "one core"),
    ] {
        let figure = find(&cycles, &format!("{function}, 64 B: {unit}"));
        assert!(figure["target"].is_string(), "{figure}");
    }
    // Without a table of routes, or without the library, there is a line that says so.
    for kind in ["router, 64 B", "esp, 1408 B"] {
        for figures in [&cycles, &cores] {
            let starts = |figure: &&Value| {
                figure["metric"].as_str().is_some_and(|metric| metric.starts_with(kind))
            };
            let figure = figures.iter().find(starts).unwrap_or_else(|| panic!("no {kind}"));
            assert!(figure["value"].is_number() || figure["note"].is_string(), "{figure}");
        }
    }
}

#[test]
fn a_table_is_loaded_asked_and_changed_or_said_to_be_missing() {
    let folder = testbed::ScratchDir::new("table").expect("there is room");
    let file = folder.path().join("routes");
    let lines =
        (0..2000).map(|n| format!("20.{}.{}.0/24 {n}\n2a00:{n:x}::/32 {n}\n", n / 256, n % 256));
    std::fs::write(&file, lines.collect::<String>()).expect("there is room");
    needs_two_cpus();
    let figures = printed::of_case(Slice { table: Some(file), ..own() }, "router");
    for metric in ["load", "IPv4 random: ours", "IPv6 skewed: ours"] {
        assert!(value(&figures, metric) > 0.0, "{metric}");
    }
    let figure = find(&figures, "IPv4 skewed: ours");
    assert_eq!(figure["target"], "ratio >= 1.5");
    assert!(value(&figures, "change of a /8 under traffic, seen, p99") > 0.0);
    let nowhere = Slice { table: Some("/no/such/file".into()), ..own() };
    let figures = printed::of_case(nowhere, "router");
    let note = find(&figures, "not measured")["note"].to_string();
    assert!(note.contains("/no/such/file"), "{note}");
}

#[test]
fn ours_is_held_against_those_who_only_encrypt_or_absent_ones_are_named() {
    let figures = figures("esp");
    for suite in ["AES-128-GCM", "AES-128-CBC + HMAC-SHA1"] {
        for way in ["ours, seal", "ours, open", "dpdk aesni_mb", "openssl"] {
            let figure = find(&figures, &format!("{suite}: {way}"));
            let is_absent = figure["note"].is_string();
            assert!(is_absent || figure["value"].as_f64() > Some(0.0), "{figure}");
        }
    }
}

#[test]
fn more_cores_than_there_are_is_a_line_that_says_so() {
    needs_two_cpus();
    let cpus = crate::place::allowed().len();
    let more = u16::try_from(cpus + 1).expect("there are fewer");
    let figures = printed::of_case(Slice { cores: more, ..own() }, "cores");
    let note = find(&figures, "not measured")["note"].to_string();
    assert!(note.contains(&format!("there are {cpus}")), "{note}");
}

#[test]
fn packets_come_through_the_hook_and_through_what_it_is_held_against() {
    needs_root();
    needs_two_cpus();
    let figures = printed::of_case(Hook {}, "forward");
    for forwarder in forwarder::Forwarder::IN_HOOK {
        assert!(value(&figures, forwarder.name()) > 0.0, "{figures:?}");
    }
}
