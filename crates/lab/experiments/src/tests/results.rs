//! What comes out: the promised points, the same bytes for the same seed, parts that make the
//! whole.

use report::Line;

use super::{SMALL, claims, cut, lines, options, points, small};
use crate::{Options, Scenario, Shard, library, store};

/// The claims of a figure that comes along, from a short run.
fn verdicts(name: &str) -> Vec<(String, Option<bool>)> {
    let lines = lines(library::find(name).expect("it is there"), options(2, Shard::WHOLE));
    claims(&lines).iter().map(|claim| (claim.claim.clone(), claim.holds)).collect()
}

/// So few requests, flows and hosts that every figure is over in a moment: what it says means
/// nothing.
const FEW: &[(&str, f64)] = &[
    ("packets", 500.0),
    ("length", 1000.0),
    ("warmup", 100.0),
    ("items", 1000.0),
    ("requests", 1.0),
    ("flows", 64.0),
    ("repeat", 1.0),
    ("leaves", 2.0),
    ("hosts_per_leaf", 2.0),
    ("groups", 128.0),
];

#[test]
fn every_series_of_every_figure_has_as_many_points_in_each_panel_as_the_head_promises() {
    let figure = |(name, _): &(&str, &str)| {
        let x = library::find(name).expect("it is there").axes.x;
        let flows = ("flows", if *name == "apps" { 1000.0 } else { 64.0 });
        let few: Vec<(&str, f64)> = FEW.iter().copied().chain([flows]).collect();
        cut(name, &x[..x.len().min(2)], &few)
    };
    for scenario in library::SCENARIOS.iter().map(figure).chain([small()]) {
        let name = scenario.name().to_owned();
        let lines = lines(scenario, options(2, Shard::WHOLE));
        let Some(Line::Figure(head)) = lines.first() else { panic!("the head comes first") };
        let points = points(&lines);
        for series in &head.series {
            for panel in &head.panels {
                let own = points.iter().filter(|point| point.panel == *panel);
                // In a map all take part in every cell.
                let is_map = head.kind == report::Kind::Map;
                let own = own.filter(|point| is_map || point.series == series.name);
                assert_eq!(own.count(), series.points, "{name}: {} {panel}", series.name);
            }
        }
    }
}

#[test]
fn a_short_run_over_time_has_as_many_points_as_a_long_one() {
    let text = SMALL
        .replace("experiment = \"station\"", "experiment = \"plant\"")
        .replace("key = \"rate\"\nfactor = 1000.0\nvalues = [10, 50, 90]", "over = \"time\"")
        .replace("packets = 2000", "packets = 100\nlength = \"9ms\"");
    for quick in [false, true] {
        let options = Options { quick, ..options(1, Shard::WHOLE) };
        let lines = lines(Scenario::parse(&text).expect("it is sound"), options);
        let own = points(&lines).into_iter().filter(|point| point.series == "one");
        assert_eq!(own.count(), 2 * 9, "two panels of a point each millisecond");
    }
}

#[test]
fn one_seed_gives_the_same_bytes_on_any_number_of_threads_and_another_seed_others() {
    let text = |threads, seed| {
        let options = Options { seed, ..options(threads, Shard::WHOLE) };
        store::to_text(&lines(small(), options))
    };
    assert_eq!(text(1, None), text(3, None));
    assert_eq!(text(1, None), text(1, Some(3)));
    assert_ne!(text(1, None), text(1, Some(4)));
}

#[test]
fn files_are_written_whole_beside_nothing_else_and_read_back() {
    let folder = std::env::temp_dir().join(format!("calisto-figures-{}", std::process::id()));
    let lines = lines(small(), options(1, Shard::WHOLE));
    let path = store::write(&folder, "small.jsonl", &lines).expect("the folder is ours");
    let written = std::fs::read_to_string(&path).expect("it was written");
    assert_eq!(written, store::to_text(&lines));
    let names = std::fs::read_dir(&folder).expect("it is there").count();
    std::fs::remove_dir_all(&folder).expect("it is ours");
    assert_eq!(names, 1, "nothing is left beside it");
    assert!(store::write(std::path::Path::new("/proc/nowhere"), "x", &lines).is_err());
}

#[test]
fn too_much_load_is_said_and_not_drawn_as_a_latency() {
    let over = SMALL.replace("values = [10, 50, 90]", "values = [10, 50, 90, 150]");
    let lines = lines(Scenario::parse(&over).expect("it is sound"), options(1, Shard::WHOLE));
    let at = |series: &str, x: f64| {
        let found = points(&lines).into_iter().find(|point| point.series == series && point.x == x);
        found.expect("every point is there").saturated
    };
    assert!(at("one", 150.0) && !at("one", 90.0) && !at("two", 150.0));
}

#[test]
fn the_head_has_every_setting_of_the_runs_with_what_panels_and_series_change() {
    let rows = |scenario: Scenario| {
        let lines = lines(
            scenario,
            Options { shard: "1/999".parse().expect("a shard"), ..options(1, Shard::WHOLE) },
        );
        let Some(Line::Figure(head)) = lines.first() else { panic!("the head comes first") };
        head.parameters.clone()
    };
    let of = |rows: &[report::Parameter], name: &str| {
        let found = rows.iter().find(|row| row.name == name);
        found.map(|row| (row.value.clone(), row.source.starts_with("default")))
    };
    let small = rows(small());
    for (name, expected) in [
        ("cores", Some(("1", false))),
        ("queues", Some(("one", true))),
        ("distribution", Some(("constant", true))),
        ("distribution: panel right", Some(("exponential", false))),
        ("cores: two", Some(("2", false))),
        // It is the axis.
        ("rate", None),
    ] {
        let expected = expected.map(|(value, is_default)| (value.to_owned(), is_default));
        assert_eq!(of(&small, name), expected, "{name}");
    }
    let tails = rows(library::find("tails").expect("it is there"));
    assert_eq!(of(&tails, "policy: shared"), Some(("shared".to_owned(), false)));
    assert_eq!(of(&tails, "policy"), None, "each series has its own");
    assert_eq!(of(&tails, "rate"), None, "the load says it");
    let interval = rows(library::find("shenango-interval").expect("it is there"));
    assert!(of(&interval, "cost of wake").is_some(), "as measured, where no panel sets it");
    assert_eq!(of(&interval, "wake: panel an idle core polls"), Some(("2us".to_owned(), false)));
}

/// The verdict of the one claim of the small scenario: which of the two serves more, at these
/// loads.
fn outlasting(values: &str) -> (Option<bool>, String) {
    let text = SMALL.replace("values = [10, 50, 90]", values);
    let text = text.replace("relation = \"lower\"", "relation = \"outlasts\"");
    let lines = lines(Scenario::parse(&text).expect("it is sound"), options(1, Shard::WHOLE));
    (claims(&lines)[0].holds, claims(&lines)[0].because.clone())
}

#[test]
fn who_serves_more_is_open_until_one_of_them_is_saturated() {
    let (holds, because) = outlasting("values = [50, 90]");
    assert_eq!(holds, None, "{because}");
    assert!(because.contains("90 kpps"), "{because}");
    assert_eq!(outlasting("values = [50, 90, 150]").0, Some(true));
    assert_eq!(outlasting("values = [50, 90, 250]").0, Some(false), "both end at the same load");
}

#[test]
fn a_queue_that_grows_without_having_overflowed_is_no_latency_either() {
    for (experiment, set, rates) in [
        // A core that does 19 M a second, and queues with room for all that is too much.
        ("scan", "{ work = 0.05, queues = 64 }", "[10e6, 21e6]"),
        // The server's CPU does 281,000 a second.
        ("demo", "{ flows = 100, length = 100000, groups = 128 }", "[200e3, 300e3]"),
    ] {
        let text = format!(
            "name = \"over\"\ntitle = \"t\"\nsource = \"s\"\ntext = \"x\"\n\
             experiment = \"{experiment}\"\n\
             x = {{ label = \"load\", key = \"rate\", values = {rates} }}\n\
             y = {{ label = \"median\", unit = \"us\", value = \"p50_us\" }}\nbase = {set}\n\
             [[series]]\nname = \"one\"\nlabel = \"One\"\n"
        );
        let lines = lines(Scenario::parse(&text).expect("it is sound"), options(1, Shard::WHOLE));
        let saturated: Vec<bool> = points(&lines).iter().map(|point| point.saturated).collect();
        assert_eq!(saturated, [false, true], "{experiment}");
    }
}

#[test]
fn a_queue_has_the_mean_that_theory_has() {
    let long = SMALL.replace("packets = 2000", "packets = 2000000");
    let lines = lines(Scenario::parse(&long).expect("it is sound"), options(2, Shard::WHOLE));
    for (panel, expected) in [("left", 15.0), ("right", 20.0)] {
        let of = |point: &&&report::PointLine| {
            point.panel == panel && point.series == "one" && point.x == 50.0
        };
        let points = points(&lines);
        let found = points.iter().find(of).expect("it is there").y;
        assert!((found / expected - 1.0).abs() < 0.05, "{panel}: {found}, not {expected}");
    }
}

#[test]
fn polling_loses_to_a_ready_set_with_many_queues_and_wins_with_one() {
    let verdicts = verdicts("spin-latency");
    assert!(verdicts.iter().all(|(_, holds)| *holds == Some(true)), "{verdicts:?}");
}

#[test]
fn sticky_moves_the_least_and_modulo_nearly_all() {
    let few =
        library::SCENARIOS.iter().find(|(name, _)| *name == "demo-moves").expect("it is there").1;
    let few =
        few.replace("flows = 20000", "flows = 4000").replace("[1, 2, 3, 4, 5, 6, 7, 8, 9]", "[4]");
    let lines = lines(Scenario::parse(&few).expect("it is sound"), options(2, Shard::WHOLE));
    for (series, expected) in [("modulo", 80.0), ("sticky", 20.0), ("calisto", 0.0)] {
        let points = points(&lines);
        let of = |point: &&&report::PointLine| point.series == series;
        let found = points.iter().find(of).expect("it is there").y;
        assert!((found - expected).abs() < 4.0, "{series}: {found}, not {expected}");
    }
}

#[test]
fn a_map_names_the_best_of_each_cell_and_says_what_all_had() {
    let small = r#"
name = "cells"
title = "t"
source = "s"
text = "x"
experiment = "station"
kind = "map"
x = { label = "load", key = "rate", values = [50000, 90000] }
y = { label = "cores", key = "cores", value = "mean_us", values = [1, 2] }
cell = { label = "mean", unit = "us" }
base = { mean = "10us", packets = 200000 }
[[series]]
name = "even"
label = "Even"
[[series]]
name = "uneven"
label = "Uneven"
set = { distribution = "bimodal1" }
"#;
    let lines = lines(Scenario::parse(small).expect("it is sound"), options(2, Shard::WHOLE));
    let points = points(&lines);
    assert_eq!(points.len(), 4);
    assert!(points.iter().all(|point| point.series == "even" && point.more.len() == 2));
}
