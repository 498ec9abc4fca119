//! Lines that belong together, and lines that do not.

use super::*;
use crate::sample;

fn place(file: &str, line: usize) -> SourceLine {
    SourceLine { file: Some(std::path::Path::new(file).into()), line }
}

/// All lines, as if each were in a file of its own.
fn merge(lines: impl IntoIterator<Item = Line>) -> Result<Report, String> {
    let mut merger = Merger::default();
    for (number, line) in lines.into_iter().enumerate() {
        merger
            .add(place(&format!("{number}.jsonl"), 1), line)
            .map_err(|error| error.to_string())?;
    }
    merger.finish().map_err(|error| error.to_string())
}

fn point(point: PointLine) -> Line {
    Line::Point(point)
}

#[test]
fn the_order_of_lines_does_not_matter() {
    let mut lines = sample::lines();
    let forward = merge(lines.clone()).expect("all is well");
    // Claims keep the order in which they were written.
    lines.sort_by_key(|line| match line {
        Line::Claim(_) => (0, 0),
        Line::Point(point) => (1, -point.x as i64),
        Line::Figure(_) => (2, 0),
    });
    let backward = merge(lines).expect("all is well");
    assert_eq!(forward.page(), backward.page());
}

#[test]
fn a_line_that_comes_twice_counts_once_and_each_shard_has_its_command() {
    let mut shard = sample::figure();
    "calisto sim fig --shard 2/2".clone_into(&mut shard.command);
    let lines = [sample::lines(), sample::lines(), vec![Line::Figure(shard)]].concat();
    let report = merge(lines).expect("all is well");
    let figure = &report.figures()[0];
    assert_eq!(figure.coverage().there, figure.coverage().promised);
    assert_eq!(figure.claims().len(), 2);
    assert_eq!(figure.commands().len(), 2);
}

#[test]
fn two_values_of_one_point_name_both_places() {
    let lines = [
        Line::Figure(sample::figure()),
        point(sample::point("one", 1.0, 2.0)),
        point(sample::point("one", 1.0, 3.0)),
    ];
    let wrong = merge(lines).expect_err("they cannot both be right");
    assert!(wrong.contains("figure fig, one at x = 1: 1.jsonl:1 and 2.jsonl:1 differ"), "{wrong}");
}

#[test]
fn two_seeds_of_one_figure_name_both_places_and_the_field() {
    let mut other = sample::figure();
    other.seed += 1;
    let lines = [Line::Figure(sample::figure()), Line::Figure(other)];
    let wrong = merge(lines).expect_err("they cannot both be right");
    assert!(wrong.contains("figure fig, seed: 0.jsonl:1 and 1.jsonl:1 differ"), "{wrong}");
}

#[test]
fn a_point_of_nothing_that_was_announced_is_refused() {
    let head = || Line::Figure(sample::figure());
    let mut of_other_panel = sample::point("one", 1.0, 2.0);
    "left".clone_into(&mut of_other_panel.panel);
    let mut of_other_figure = sample::point("one", 1.0, 2.0);
    "fog".clone_into(&mut of_other_figure.figure);
    let cases = [
        (sample::point("three", 1.0, 2.0), "1.jsonl:1: figure fig has no series \"three\""),
        (of_other_panel, "1.jsonl:1: figure fig has no panel \"left\""),
        (of_other_figure, "1.jsonl:1: it is of the figure \"fog\""),
    ];
    for (bad, expected) in cases {
        let wrong = merge([head(), point(bad)]).expect_err("it belongs to nothing");
        assert!(wrong.starts_with(expected), "{wrong}");
    }
}

#[test]
fn a_logarithmic_axis_takes_zero_and_nothing_below() {
    let mut head = sample::figure();
    head.y.scale = Scale::Log;
    let lines = |y| [Line::Figure(head.clone()), point(sample::point("one", 1.0, y))];
    assert!(merge(lines(0.0)).is_ok());
    assert!(merge(lines(-1.0)).expect_err("no logarithm").contains("y is -1"));
}

#[test]
fn a_claim_that_one_shard_leaves_open_is_known_from_another() {
    let claims = |first, second| {
        let claims = [first, second].map(|holds| Line::Claim(sample::claim(holds)));
        let report = merge([vec![Line::Figure(sample::figure())], claims.to_vec()].concat())?;
        Ok::<_, String>(report.figures()[0].claims()[0].holds)
    };
    assert_eq!(claims(None, Some(true)), Ok(Some(true)));
    assert_eq!(claims(Some(false), None), Ok(Some(false)));
    assert_eq!(claims(None, None), Ok(None));
    let wrong = claims(Some(false), Some(true)).expect_err("they cannot both be right");
    assert!(wrong.contains("1.jsonl:1 and 2.jsonl:1 differ"), "{wrong}");
}

#[test]
fn what_is_missing_is_said_series_by_series() {
    let mut lines = sample::lines();
    let last = lines.iter().rposition(|line| matches!(line, Line::Point(_)));
    lines.remove(last.expect("there are points"));
    let report = merge(lines).expect("all is well");
    let coverage = report.figures()[0].coverage();
    assert_eq!(coverage.there + 1, coverage.promised);
    assert_eq!(coverage.lacks, ["Two has 2 of 3 points: shards are missing"]);
    let head_only = merge([Line::Figure(sample::figure())]).expect("all is well");
    let lacks = head_only.figures()[0].coverage().lacks;
    assert_eq!(lacks, ["One was not run here", "Two was not run here"]);
}

#[test]
fn a_map_has_no_more_cells_than_can_be_seen() {
    let head = sample::map().swap_remove(0);
    let cells = (0..=STEPS_MAX).map(|step| point(sample::point("one", step as f64, step as f64)));
    let wrong = merge([head].into_iter().chain(cells)).expect_err("they are too many");
    assert!(wrong.contains("has 101 steps on an axis"), "{wrong}");
}

#[test]
fn claims_have_an_end() {
    let claims = (0..=CLAIMS_MAX).map(|number| {
        Line::Claim(Claim { claim: format!("claim {number}"), ..sample::claim(None) })
    });
    let wrong = merge([Line::Figure(sample::figure())].into_iter().chain(claims));
    assert!(wrong.expect_err("they are too many").contains("more than 200 claims"));
}

#[test]
fn columns_of_all_points_of_a_figure_together_have_an_end() {
    let merge = |names: usize| {
        let points = (0..2 * names).map(|number| {
            let more = [(format!("column_{}", number % names), 1.0)].into();
            point(PointLine { more, ..sample::point("one", number as f64, 1.0) })
        });
        merge([Line::Figure(sample::figure())].into_iter().chain(points))
    };
    assert!(merge(COLUMNS_MAX).is_ok());
    let wrong = merge(COLUMNS_MAX + 1).expect_err("they are too many");
    assert!(wrong.contains("figure fig have more than 64 names in more"), "{wrong}");
    assert!(wrong.contains("\"column_64\" of 65.jsonl:1 is one too many"), "{wrong}");
}
