//! What the figures that come along show: the order of policies and bounds, from short runs.

use report::PointLine;

use super::{cut, lines, options, points};
use crate::{Shard, library};

/// The points of a figure at some places, of a run with other settings.
fn seen(name: &str, x: &[f64], set: &[(&str, f64)]) -> Vec<PointLine> {
    let lines = lines(cut(name, x, set), options(2, Shard::WHOLE));
    points(&lines).into_iter().cloned().collect()
}

/// What a series has at a place of a panel.
fn at<'a>(points: &'a [PointLine], panel: &str, series: &str, x: f64) -> &'a PointLine {
    let is_it = |point: &&PointLine| {
        point.panel == panel && point.series == series && (point.x - x).abs() < 1e-9
    };
    points.iter().find(is_it).expect("every point is there")
}

#[test]
fn the_bound_of_theory_gets_the_requests_of_the_plant_and_nobody_beats_it() {
    let seen = seen("tails", &[0.3, 0.8], &[("packets", 50_000.0)]);
    let panel = "exponential";
    for x in [0.3, 0.8] {
        let theory = at(&seen, panel, "one-queue-theory", x);
        // A packet costs a core something besides its work: of that alone cores are less loaded.
        let load = theory.more["load"];
        assert!((0.9 * x..=x).contains(&load), "{load} of the servers, not {x}");
        let series = seen.iter().filter(|point| point.panel == panel && point.x == x);
        for point in series.filter(|point| point.series != theory.series) {
            assert!(point.y > 0.9 * theory.y, "{} beats theory at {x}", point.series);
        }
    }
    let of_theory = |x| at(&seen, panel, "one-queue-theory", x).y;
    assert!(of_theory(0.8) > of_theory(0.3), "its tail grows with the load");
}

#[test]
fn the_polling_tax_is_all_but_the_work_and_the_last_point_is_full_load() {
    let seen = seen("spin-tax", &[1.0, 16.0, 20.0], &[]);
    for series in ["polling-1", "polling-8", "polling-512"] {
        let of = |x| at(&seen, "", series, x);
        assert!(
            of(1.0).y > of(16.0).y && of(16.0).y > of(20.0).y,
            "{series}: it falls with the load"
        );
        let full = of(20.0);
        assert!(!full.saturated && full.more["useless_percent"] == 0.0, "{series}: never idle");
        // Of a second so much is work: 50 ns for each of what was delivered.
        let in_work = full.more["throughput_mpps"] * 1e6 * 50e-9 * 100.0;
        assert!((full.y + in_work - 100.0).abs() < 0.1, "{series}: {} and {in_work}", full.y);
    }
}

#[test]
fn the_sweep_of_shared_queues_goes_on_until_each_way_to_serve_is_saturated() {
    let whole = library::find("spin-scale").expect("it is there");
    let last = whole.axes.x.last().copied().expect("it has values");
    let seen = seen("spin-scale", &[5.0, last], &[("items", 3_000_000.0)]);
    for point in &seen {
        assert_eq!(point.saturated, point.x > 5.0, "{} at {}", point.series, point.x);
    }
}
