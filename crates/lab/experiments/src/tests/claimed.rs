//! What the figures that come along show: the order of policies and bounds, from short runs.

use report::PointLine;

use super::{claims, cut, lines, options, points};
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
fn the_bound_of_theory_gets_the_requests_of_the_machine_and_nobody_beats_it() {
    let seen = seen("tails", &[0.3, 0.8], &[("packets", 150_000.0)]);
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
    let seen = seen("spin-tax", &[1.0, 16.0, 40.0], &[]);
    for series in ["polling-1", "polling-8", "polling-512"] {
        let of = |x| at(&seen, "", series, x);
        assert!(
            of(1.0).y > of(16.0).y && of(16.0).y > of(40.0).y,
            "{series}: it falls with the load"
        );
        let full = of(40.0);
        assert!(!full.saturated && full.more["useless_percent"] == 0.0, "{series}: never idle");
        // Of a second this share is work: 27 ns for each of what was delivered.
        let in_work = full.more["throughput_mpps"] * 1e6 * 27e-9 * 100.0;
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

#[test]
fn stealing_keeps_the_tail_below_that_of_flows_tied_to_cores() {
    let seen = seen("tails", &[0.8], &[("packets", 50_000.0)]);
    for panel in ["exponential", "bimodal1"] {
        let of = |series| at(&seen, panel, series, 0.8).y;
        assert!(of("stealing") < 0.8 * of("sticky"), "{panel}");
    }
}

#[test]
fn from_some_price_of_a_move_on_affinity_pays() {
    let seen = seen("calisto-penalty", &[0.01, 10.0], &[("repeat", 30.0)]);
    let share = |x, than| at(&seen, "", "sticky", x).y / at(&seen, "", than, x).y;
    // Where a move costs nothing the rules do equally well.
    assert!((share(0.01, "shenango") - 1.0).abs() < 0.1, "{}", share(0.01, "shenango"));
    let dear = at(&seen, "", "shenango", 10.0);
    assert!(dear.saturated || share(10.0, "shenango") < 0.9, "{}", share(10.0, "shenango"));
    let without = at(&seen, "", "shared", 10.0);
    assert!(without.saturated || share(10.0, "shared") < 0.9, "{}", share(10.0, "shared"));
    assert!(!at(&seen, "", "sticky", 10.0).saturated);
}

#[test]
fn an_exact_table_of_flows_is_full_before_an_owner_table_is() {
    let seen = seen("calisto-beyond", &[6000.0], &[("packets", 200_000.0), ("length", 100_000.0)]);
    assert!(at(&seen, "", "listing3", 6000.0).saturated);
    let sticky = at(&seen, "", "sticky", 6000.0);
    assert!(!sticky.saturated && sticky.more["reordered_packets"] == 0.0);
}

#[test]
fn the_effects_that_the_calisto_paper_reports_do_not_appear() {
    for (name, x, beginnings) in [
        (
            "calisto-6",
            [5.0, 10.0],
            &[
                "While its table fills",
                "Between 10 and 14 kpps it",
                "Between 10 and 14 kpps the code",
            ][..],
        ),
        (
            "calisto-7",
            [10.0, 14.0],
            &["Between 10 and 14 kpps C", "Between 10 and 14 kpps the code"],
        ),
    ] {
        // As in the paper but with a tenth of the flows, each of which still sends once or not at
        // all.
        let lines = lines(cut(name, &x, &[("flows", 70_000.0)]), options(2, Shard::WHOLE));
        for beginning in beginnings {
            let claim = claims(&lines).into_iter().find(|one| one.claim.starts_with(beginning));
            let claim = claim.expect("it is claimed");
            assert_eq!(claim.holds, Some(false), "{name}: {}: {}", claim.claim, claim.because);
        }
    }
}

#[test]
fn balancing_lowers_the_tail_under_skew_and_costs_nothing_without() {
    // Balanced has had as much time as in the figure.
    let seen = seen("rss-skew", &[0.0, 0.9], &[("packets", 400_000.0), ("warmup", 2e6)]);
    let of = |series, x| at(&seen, "", series, x);
    assert!(of("balanced", 0.0).y < 1.1 * of("modulo", 0.0).y);
    let (fixed, balanced) = (of("modulo", 0.9), of("balanced", 0.9));
    assert!(!balanced.saturated);
    assert!(fixed.saturated || balanced.y < fixed.y, "{} and {}", balanced.y, fixed.y);
}

#[test]
fn one_hot_queue_among_many_halves_the_peak_of_who_polls_and_not_that_of_a_ready_set() {
    let seen = seen("spin-peak", &[1.0, 512.0], &[]);
    let loss = |series| at(&seen, "", series, 512.0).y / at(&seen, "", series, 1.0).y;
    assert!(loss("polling-one") < 0.6, "{}", loss("polling-one"));
    for series in ["polling-balanced", "ready-set-balanced", "ready-set-one"] {
        assert!(loss(series) > 0.8, "{series}: {}", loss(series));
    }
}

#[test]
fn the_longer_one_does_not_look_the_longer_the_tail_and_few_cores_are_no_answer() {
    // The longest is longer than a burst: whoever looks as often as bursts last may happen to look
    // as one begins.
    let (panel, looks) = ("an idle core polls", [5.0, 100.0, 2000.0]);
    let seen = seen("shenango-interval", &looks, &[("repeat", 200.0)]);
    let tails = looks.map(|x| at(&seen, panel, "queue-delay", x).y);
    assert!(tails.is_sorted() && tails[2] > 3.0 * tails[0], "{tails:?}");
    let of = |series| at(&seen, panel, series, 5.0);
    assert!(of("static-mean").y > 1.5 * of("queue-delay").y);
    assert!(of("queue-delay").more["cores"] < 0.5 * of("static-peak").more["cores"]);
}
