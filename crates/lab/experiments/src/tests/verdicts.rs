//! What a claim says of points that are made up for it.

use std::collections::BTreeMap;

use report::{Claim, PointLine};

use super::SMALL;
use crate::{Scenario, claim};

/// The small scenario with its claim said in this way.
fn claimed(relation: &str) -> Scenario {
    let (head, _) = SMALL.split_once("relation = ").expect("it has a claim");
    Scenario::parse(&format!("{head}{relation}\n")).expect("it is sound")
}

fn point(series: &str, x: f64, y: f64) -> PointLine {
    PointLine {
        figure: "small".to_owned(),
        panel: "left".to_owned(),
        series: series.to_owned(),
        x,
        y,
        band: None,
        saturated: y.is_infinite(),
        more: BTreeMap::from([("load".to_owned(), x / 100.0)]),
        runs: BTreeMap::new(),
        tie: false,
    }
}

/// The claim, where the series have these means at the three loads; infinite: saturated.
fn judged(relation: &str, one: [f64; 3], two: [f64; 3]) -> Claim {
    let of = |series: &'static str, ys: [f64; 3]| {
        [10.0, 50.0, 90.0].into_iter().zip(ys).map(move |(x, y)| point(series, x, y))
    };
    let points: Vec<PointLine> = of("one", one).chain(of("two", two)).collect();
    claim::all(&claimed(relation), &points).remove(0)
}

const FULL: f64 = f64::INFINITY;

#[test]
fn a_claim_that_cannot_be_judged_says_why() {
    let lower = "relation = \"lower\"\nseries = \"two\"\nthan = \"one\"\n";
    let flat = "relation = \"flat\"\nseries = \"one\"\n";
    for (relation, one, words) in [
        (format!("{lower}from = 95"), [1.0; 3], "no point where the claim looks"),
        (format!("{lower}from = 50"), [1.0, FULL, FULL], "both are saturated"),
        (format!("{flat}from = 50"), [1.0, FULL, FULL], "every point that it needs is saturated"),
    ] {
        let claim = judged(&relation, one, one);
        assert_eq!(claim.holds, None, "{}", claim.because);
        assert!(claim.because.contains(words), "{}", claim.because);
    }
    let part = claim::all(&claimed(lower), &[point("two", 10.0, 1.0)]).remove(0);
    assert!(part.holds.is_none() && part.because.contains("other shards"), "{}", part.because);
}

#[test]
fn saturation_has_no_latency_but_counts_what_was_counted() {
    let one = "series = \"one\"\nlimit = 100\n";
    let at_most = format!("relation = \"at_most\"\n{one}");
    assert_eq!(judged(&at_most, [1.0, 2.0, 3.0], [1.0; 3]).holds, Some(true));
    let full = judged(&at_most, [1.0, 2.0, FULL], [1.0; 3]);
    assert_eq!(full.holds, Some(false), "{}", full.because);
    assert!(full.because.contains("1 of 3 points saturated"), "{}", full.because);
    // The load is known at the saturated point, too: there it is 0.9.
    let load = "relation = \"at_most\"\nseries = \"one\"\nvalue = \"load\"\nlimit = ";
    for (limit, holds) in [("0.6", false), ("0.95", true)] {
        let claim = judged(&format!("{load}{limit}"), [1.0, 2.0, FULL], [1.0; 3]);
        assert_eq!(claim.holds, Some(holds), "{}", claim.because);
    }
    let falls = "relation = \"falls\"\nseries = \"one\"\nby = 0.1\n";
    assert_eq!(judged(falls, [3.0, 2.0, FULL], [1.0; 3]).holds, Some(false));
}

#[test]
fn one_point_by_chance_is_not_somewhere() {
    for (relation, lucky, clear) in
        [("lower_somewhere", 0.99, 0.9), ("higher_somewhere", 1.01, 1.1)]
    {
        let text = format!("relation = \"{relation}\"\nseries = \"two\"\nthan = \"one\"\n");
        let holds = |y| judged(&text, [1.0; 3], [1.0, 1.0, y]).holds;
        assert_eq!((holds(lucky), holds(clear)), (Some(false), Some(true)), "{relation}");
    }
}

/// The claim, where the series had these means at one load, run by run; infinite: saturated.
fn judged_by_runs(relation: &str, one: &[f64], two: &[f64]) -> Claim {
    let of = |series: &str, ys: &[f64]| {
        let served: Vec<f64> = ys.iter().copied().filter(|y| y.is_finite()).collect();
        let mean = served.iter().sum::<f64>() / served.len() as f64;
        let values = ys.iter().map(|y| if y.is_finite() { *y } else { 0.0 });
        let full = ys.iter().map(|y| f64::from(u8::from(y.is_infinite())));
        let runs =
            [("mean_us".to_owned(), values.collect()), ("saturated".to_owned(), full.collect())];
        PointLine { runs: runs.into(), ..point(series, 50.0, mean) }
    };
    let points: Vec<PointLine> = [10.0, 50.0, 90.0]
        .into_iter()
        .flat_map(|x| [of("one", one), of("two", two)].map(|point| PointLine { x, ..point }))
        .collect();
    claim::all(&claimed(relation), &points).remove(0)
}

#[test]
fn what_nearly_all_runs_say_holds_and_what_they_disagree_about_is_open() {
    let lower = "relation = \"lower\"\nseries = \"two\"\nthan = \"one\"\n";
    let one = [10.0; 10];
    let below = |count: usize| {
        // In the mean it is lower each time, by the runs in which it is lower by much.
        let two: Vec<f64> = (0..10).map(|run| if run < count { 1.0 } else { 11.0 }).collect();
        judged_by_runs(lower, &one, &two)
    };
    for (count, holds) in
        [(10, Some(true)), (9, Some(true)), (8, None), (5, None), (2, None), (1, Some(false))]
    {
        let claim = below(count);
        assert_eq!((claim.holds, claim.runs), (holds, Some((count as u32, 10))), "{claim:?}");
    }
    // A run that is saturated is no run in which it is lower.
    let full: Vec<f64> = (0..10).map(|run| if run < 4 { FULL } else { 1.0 }).collect();
    let claim = judged_by_runs(lower, &one, &full);
    assert_eq!((claim.holds, claim.runs), (None, Some((6, 10))));
    assert_eq!(claim.test, "mean_us of two: below one; the threshold is ours");
}
