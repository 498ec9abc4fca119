//! A job's runs, made into points.

use std::collections::BTreeMap;

use report::PointLine;
use sim::Level;

use crate::confidence::is_lower;
use crate::experiment::Row;
use crate::sweep::{Job, Scenario};

/// Below this share of difference two series of one run do equally well: so much two runs differ by
/// chance.
pub(crate) const EVEN: f64 = 0.03;

/// What came out.
struct Found {
    /// Of runs with seeds of their own, at the median of what was measured.
    runs: Vec<Vec<Row>>,
    /// At the low and the high end of what was measured.
    ends: Vec<Vec<Row>>,
}

impl Found {
    fn all(&self) -> impl Iterator<Item = &Vec<Row>> {
        self.runs.iter().chain(&self.ends)
    }
}

/// Runs a job: `runs` times at the median of what was measured, and once at each end of it.
pub(crate) fn of_job(
    scenario: &Scenario,
    job: &Job,
    seed: u64,
    runs: u32,
    quick: bool,
) -> Result<Vec<PointLine>, String> {
    let mut by_series = Vec::new();
    for series in job.series(scenario) {
        let has_ends = scenario.series[series].experiment.has_costs && scenario.pinned.is_none();
        let is_bare = quick || scenario.is_map() || !has_ends;
        let ends: &[Level] = if is_bare { &[] } else { &[Level::Low, Level::High] };
        let settings = scenario.settings(job, series);
        let values = scenario.sweep_values();
        let task = scenario.task(&settings, &values, quick);
        let of = &scenario.series[series];
        let run = |level: Level, seed: u64| (of.experiment.run)(&task, level, seed);
        let runs = if of.experiment.has_chance { runs } else { 1 };
        let runs = (0..runs).map(|number| run(Level::Median, job.seed(of_run(seed, number))));
        let runs = runs.collect::<Result<Vec<_>, String>>()?;
        // Other requests at each end: the band then has what chance does, too.
        let end = |level: &Level| run(*level, job.seed(seed).wrapping_add(1 + *level as u64));
        let ends = ends.iter().map(end).collect::<Result<Vec<_>, String>>()?;
        by_series.push((series, Found { runs, ends }));
    }
    if scenario.is_map() {
        return Ok(cell(scenario, job, &by_series).into_iter().collect());
    }
    Ok(by_series.iter().flat_map(|(series, found)| lines(scenario, job, *series, found)).collect())
}

/// Where everything random in a run comes from: no two runs of two seeds share it.
fn of_run(seed: u64, number: u32) -> u64 {
    match number {
        0 => seed,
        number => load::Random::new(seed ^ u64::from(number) << 48).bits(),
    }
}

/// The points of a series.
fn lines(scenario: &Scenario, job: &Job, series: usize, found: &Found) -> Vec<PointLine> {
    let of = &scenario.series[series];
    let Some(first) = found.runs.first() else { return Vec::new() };
    let looked_at = scenario.looked_at(series);
    let point = |(number, row): (usize, &Row)| {
        let at = row.at.map(|at| at / scenario.read.x.factor);
        let x = at.unwrap_or_else(|| scenario.axes.x[job.x.unwrap_or(number)]);
        let runs: Vec<&Row> = found.runs.iter().filter_map(|rows| rows.get(number)).collect();
        let is_full =
            |row: &Row| row.saturated || !row.values.get(of.value).is_some_and(|y| y.is_finite());
        let full = runs.iter().filter(|row| is_full(row)).count();
        let saturated = 2 * full > runs.len();
        // Where most are served, what the others had says nothing but that they were not.
        let counted: Vec<&Row> =
            runs.iter().copied().filter(|row| saturated || !is_full(row)).collect();
        let (band, saturated_runs) =
            band(found.all().filter_map(|rows| rows.get(number)), of.value);
        let more = row.values.keys().filter(|name| **name != of.value);
        let more = more.filter_map(|name| Some(((*name).to_owned(), mean(&counted, name)?)));
        // Where some of the runs have no value nobody knows how wide the band is: it is said
        // instead of drawn.
        let unknown = (!saturated && saturated_runs > 0)
            .then(|| ("saturated_runs".to_owned(), saturated_runs as f64));
        PointLine {
            figure: scenario.name().to_owned(),
            panel: scenario.panels[job.panel].clone(),
            series: of.name.clone(),
            x: rounded(x),
            y: mean(&counted, of.value).unwrap_or(0.0),
            band: band.filter(|_| !saturated && found.all().count() > 1),
            saturated,
            more: more.chain(unknown).collect(),
            runs: if runs.len() > 1 { each(&runs, &looked_at, is_full) } else { BTreeMap::new() },
            tie: false,
        }
    };
    first.iter().enumerate().map(point).collect()
}

/// Of those that have it.
fn mean(rows: &[&Row], name: &str) -> Option<f64> {
    let values =
        rows.iter().filter_map(|row| row.values.get(name).filter(|value| value.is_finite()));
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| rounded(sum / f64::from(count)))
}

/// Of the values that claims look at, what each run had.
fn each(
    runs: &[&Row],
    names: &[&str],
    is_full: impl Fn(&Row) -> bool,
) -> BTreeMap<String, Vec<f64>> {
    let value = |row: &Row, name: &str| {
        rounded(row.values.get(name).copied().filter(|value| value.is_finite()).unwrap_or(0.0))
    };
    let known = names.iter().filter(|name| runs.iter().all(|row| row.values.contains_key(*name)));
    let mut all: BTreeMap<String, Vec<f64>> = known
        .map(|name| ((*name).to_owned(), runs.iter().map(|row| value(row, name)).collect()))
        .collect();
    if runs.iter().any(|row| is_full(row)) && !names.is_empty() {
        let full = runs.iter().map(|row| f64::from(u8::from(is_full(row))));
        all.insert("saturated".to_owned(), full.collect());
    }
    all
}

/// From the least to the most of what the levels have, if each has something; and how many have
/// not.
fn band<'a>(
    rows: impl Iterator<Item = &'a Row>,
    value: &'static str,
) -> (Option<(f64, f64)>, usize) {
    let (mut low, mut high, mut saturated) = (f64::INFINITY, f64::NEG_INFINITY, 0);
    for row in rows {
        match row.values.get(value) {
            Some(y) if y.is_finite() && !row.saturated => (low, high) = (low.min(*y), high.max(*y)),
            _ => saturated += 1,
        }
    }
    let is_known = saturated == 0 && low <= high;
    (is_known.then(|| (rounded(low), rounded(high))), saturated)
}

/// The cell of a map: the series that does best, beyond what chance does.
fn cell(scenario: &Scenario, job: &Job, by_series: &[(usize, Found)]) -> Option<PointLine> {
    let mut all: Vec<(&str, f64, Vec<f64>)> = Vec::new();
    for (series, found) in by_series {
        let of = &scenario.series[*series];
        let value = |rows: &Vec<Row>| {
            let row = rows.first().filter(|row| !row.saturated)?;
            row.values.get(of.value).copied().filter(|value| value.is_finite())
        };
        let runs: Option<Vec<f64>> = found.runs.iter().map(value).collect();
        // A series that cannot serve it in one run cannot be relied on to serve it.
        let Some(runs) = runs.filter(|runs| !runs.is_empty()) else { continue };
        all.push((&of.name, runs.iter().sum::<f64>() / runs.len() as f64, runs));
    }
    let best = all.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let first = &scenario.series.first()?.name;
    let name = best.map_or(first.as_str(), |(name, ..)| *name);
    let tie = best.is_some_and(|(name, _, runs)| {
        let mut others = all.iter().filter(|(other, ..)| other != name);
        let is_apart = |(_, mean, theirs): &(&str, f64, Vec<f64>)| match runs.len() {
            // As good as the least: so much two runs differ by chance.
            1 => runs[0] <= mean * (1.0 - EVEN),
            _ => is_lower(runs.iter().copied().zip(theirs.iter().copied())),
        };
        !others.all(is_apart)
    });
    let more = all.iter().map(|(name, mean, _)| ((*name).to_owned(), rounded(*mean))).collect();
    let runs = all.iter().filter(|(_, _, runs)| runs.len() > 1);
    let runs = runs
        .map(|(name, _, runs)| ((*name).to_owned(), runs.iter().copied().map(rounded).collect()));
    Some(PointLine {
        figure: scenario.name().to_owned(),
        panel: scenario.panels[job.panel].clone(),
        series: name.to_owned(),
        x: *scenario.axes.x.get(job.x?)?,
        y: *scenario.axes.y.get(job.y?)?,
        band: None,
        saturated: best.is_none(),
        more,
        runs: runs.collect(),
        tie,
    })
}

/// Six digits: more say nothing, and fewer bytes are easier to look at.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(y: f64, saturated: bool) -> Row {
        Row { values: BTreeMap::from([("mean_us", y)]), saturated, ..Row::default() }
    }

    const LEVELS: &str = r#"
name = "levels"
title = "t"
source = "s"
text = "x"
experiment = "scan"
x = { label = "load", key = "rate", values = [1000] }
y = { label = "mean", unit = "us", value = "mean_us" }
[[series]]
name = "one"
label = "One"
"#;

    /// The only point of a scenario that has gone so at its three levels.
    fn point(rows: [Row; 3]) -> PointLine {
        let scenario = Scenario::parse(LEVELS).expect("it is sound");
        let [low, median, high] = rows.map(|row| vec![row]);
        let found = Found { runs: vec![median], ends: vec![low, high] };
        let job = Job { panel: 0, only: Some(0), x: Some(0), y: None };
        lines(&scenario, &job, 0, &found).remove(0)
    }

    #[test]
    fn a_band_goes_over_all_levels() {
        let point = point([row(2.0, false), row(3.0, false), row(5.0, false)]);
        assert_eq!((point.y, point.band), (3.0, Some((2.0, 5.0))));
        assert!(!point.more.contains_key("saturated_runs"));
    }

    #[test]
    fn where_a_level_is_saturated_there_is_no_band_and_it_is_said() {
        let point = point([row(2.0, false), row(3.0, false), row(900.0, true)]);
        assert_eq!((point.y, point.band, point.saturated), (3.0, None, false));
        assert_eq!(point.more["saturated_runs"], 1.0);
    }

    #[test]
    fn a_cell_goes_to_the_first_that_does_as_well_as_the_best() {
        let text = r#"
name = "cells"
title = "t"
source = "s"
text = "x"
experiment = "scan"
kind = "map"
x = { label = "load", key = "rate", values = [1000] }
y = { label = "queues", key = "queues", value = "mean_us", values = [1] }
cell = { label = "mean", unit = "us" }
[[series]]
name = "one"
label = "One"
[[series]]
name = "two"
label = "Two"
[[series]]
name = "three"
label = "Three"
"#;
        let scenario = Scenario::parse(text).expect("it is sound");
        let job = Job { panel: 0, only: None, x: Some(0), y: Some(0) };
        let winner = |values: [&[f64]; 3]| {
            let found = values.map(|ys| Found {
                runs: ys.iter().map(|y| vec![row(*y, *y > 999.0)]).collect(),
                ends: Vec::new(),
            });
            let by_series: Vec<(usize, Found)> = found.into_iter().enumerate().collect();
            let cell = cell(&scenario, &job, &by_series).expect("it is a cell");
            (cell.series, cell.tie, cell.saturated)
        };
        let of = |name: &str, tie| (name.to_owned(), tie, false);
        // The pairs are apart, though the runs of one differ by more than the two do.
        let (low, high) = (&[90.0, 60.0, 75.0, 80.0][..], &[99.0, 67.0, 83.0, 87.0][..]);
        assert_eq!(winner([high, low, high]), of("two", false));
        // One of the others may be as good.
        assert_eq!(winner([high, low, &[95.0, 50.0, 90.0, 85.0]]), of("two", true));
        // Once it was too much for the best.
        assert_eq!(winner([high, &[90.0, 60.0, 1000.0, 80.0], &[199.0; 4]]), of("one", false));
        assert!(winner([&[1000.0; 4]; 3]).2);
        // Of one run each, a little better is not better.
        assert_eq!(winner([&[100.0], &[99.0], &[300.0]]), of("two", true));
        assert_eq!(winner([&[100.0], &[90.0], &[300.0]]), of("two", false));
    }

    #[test]
    fn a_point_is_the_mean_of_its_runs_and_keeps_what_claims_look_at() {
        let scenario = Scenario::parse(&format!(
            "{}\n[[claim]]\nclaim = \"c\"\nsource = \"s\"\nrelation = \"flat\"\nseries = \"one\"\n",
            LEVELS
        ));
        let scenario = scenario.expect("it is sound");
        let job = Job { panel: 0, only: Some(0), x: Some(0), y: None };
        let of = |rows: [Row; 3]| {
            let found = Found { runs: rows.map(|row| vec![row]).into(), ends: Vec::new() };
            lines(&scenario, &job, 0, &found).remove(0)
        };
        let served = of([row(2.0, false), row(3.0, false), row(7.0, false)]);
        assert_eq!((served.y, served.band, served.saturated), (4.0, Some((2.0, 7.0)), false));
        assert_eq!(served.runs, BTreeMap::from([("mean_us".to_owned(), vec![2.0, 3.0, 7.0])]));
        let once = of([row(2.0, false), row(4.0, false), row(900.0, true)]);
        assert_eq!((once.y, once.band, once.saturated), (3.0, None, false));
        assert_eq!(once.runs["saturated"], [0.0, 0.0, 1.0]);
        assert!(of([row(2.0, false), row(900.0, true), row(900.0, true)]).saturated);
    }

    #[test]
    fn no_two_runs_of_two_seeds_have_the_same_requests() {
        let all = (0..40).flat_map(|seed| (0..30).map(move |number| of_run(seed, number)));
        let all: std::collections::BTreeSet<u64> = all.collect();
        assert_eq!(all.len(), 1200);
    }

    #[test]
    fn six_digits_are_kept() {
        for (value, expected) in [(0.0, 0.0), (1.0 / 3.0, 0.333_333), (-1_234_567.0, -1_234_570.0)]
        {
            assert_eq!(rounded(value), expected);
        }
    }
}
