//! The texts name what there is, and the numbers are those of the runs.

use std::sync::Arc;
use std::time::Duration;

use report::{Line, Report};

use super::*;
use crate::{Options, Run, Shard};

fn texts() -> File {
    toml::from_str(TEXT).expect("they can be read")
}

#[test]
fn every_number_names_a_figure_a_series_a_value_and_a_place_that_exist() {
    for row in texts().paper.iter().flat_map(|paper| &paper.row) {
        for figure in &row.figures {
            assert!(library::find(figure).is_ok(), "{}: {figure}", row.there);
        }
        for ours in &row.ours {
            let place = format!("{}: {}", row.there, ours.what);
            assert!(row.figures.contains(&ours.figure), "{place}: of a figure that is not named");
            let scenario = library::find(&ours.figure).unwrap_or_else(|_| panic!("{place}"));
            for name in std::iter::once(&ours.series).chain(&ours.than) {
                if scenario.read.paper.iter().any(|paper| paper.name.get_ref() == name) {
                    assert!(ours.value.is_none(), "{place}: a paper's points have one value");
                    continue;
                }
                let series = scenario.series.iter().find(|series| series.name == *name);
                let series = series.unwrap_or_else(|| panic!("{place}: no series {name}"));
                let value = ours.value.as_deref().unwrap_or(series.value);
                assert!(series.experiment.values.contains(&value), "{place}: {value}");
            }
            let panel = ours.panel.as_ref().unwrap_or(&scenario.panels[0]);
            assert!(scenario.panels.contains(panel), "{place}: {panel}");
            let known = ours.at.is_none_or(|at| scenario.axes.x.contains(&at));
            assert!(known, "{place}: {:?} is not one of {:?}", ours.at, scenario.axes.x);
            assert!(
                ours.than.is_none() || ours.unit.is_empty(),
                "{place}: a difference is in per cent"
            );
        }
    }
}

#[test]
fn every_row_has_a_counterpart_or_a_reason_and_every_paper_its_rows() {
    let papers = texts().paper;
    assert_eq!(papers.len(), 4, "two of the five are one paper and its slides");
    for paper in &papers {
        assert!(paper.row.len() >= 5, "{}", paper.title);
        for row in &paper.row {
            assert!(row.here.len() > 10 && !row.says.is_empty(), "{}", row.there);
        }
    }
}

/// The figure in quick runs.
fn quick(name: &str, runs: u32) -> Vec<Line> {
    let scenario = Arc::new(library::find(name).expect("it comes with the program"));
    let options = Options { seed: None, shard: Shard::WHOLE, threads: 2, quick: true, runs };
    let mut run = Run::start(scenario, options).expect("there are threads");
    while run.wait(Duration::from_secs(1)).expect("every run comes to its end") {}
    run.lines("calisto sim")
}

#[test]
fn numbers_are_those_of_the_points_and_what_was_not_run_has_none() {
    let lines = quick("spin-tax-work", 3);
    let report = Report::of(lines).expect("a run's lines fit together");
    let papers = beside(&report);
    let row = papers
        .iter()
        .flat_map(|paper| &paper.rows)
        .find(|row| row.figures.iter().any(|name| name == "spin-tax-work"));
    let row = row.expect("there is a row about it");
    let at_nine = row.ours.iter().find(|ours| ours.what.contains("9 ns")).expect("a number");
    let point = report.figures()[0].points();
    let point = point.into_iter().find(|point| point.series == "polling-8" && point.x == 9.0);
    let expected = format!("{} %", plain(point.expect("it was run").y));
    assert_eq!(at_nine.number.as_deref(), Some(&*expected));
    assert!(row.ours.iter().any(|ours| ours.number.is_none()), "spin-tax was not run: {row:?}");
    let markdown = {
        let mut report = report;
        report.set_papers(papers);
        report.papers_markdown()
    };
    assert!(markdown.contains(&format!("at 9 ns of work: {expected}")), "{markdown}");
    assert!(markdown.contains("not run"));
}

#[test]
fn a_difference_has_its_sign_and_its_range_and_a_miss_is_not_rounded_away() {
    assert_eq!(shown(-1.04, &[-1.6, -0.4], "%", true), "- 1 % (- 1.6 to - 0.4 in 2 runs)");
    assert_eq!(shown(88.26, &[], "%", true), "+ 88.3 %");
    assert_eq!(shown(-0.01, &[], "%", true), "0 %");
    assert_eq!(shown(12.345, &[12.0, 13.0], "us", false), "12.3 us (12 to 13 in 2 runs)");
    assert_eq!((plain(1234.0), plain(0.12345)), ("1234".to_owned(), "0.123".to_owned()));
}
