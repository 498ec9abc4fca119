//! A job's runs, made into points.

use report::PointLine;
use sim::Level;

use crate::experiment::Row;
use crate::sweep::{Job, Scenario};

/// Below this share of difference two series do equally well: so much two runs differ by chance. Of
/// a map the one named first has the cell then.
pub(crate) const EVEN: f64 = 0.03;

/// What came out at each level.
type Runs = Vec<(Level, Vec<Row>)>;

/// Runs a job: at the low, the median and the high end of what was measured, or just at the median.
pub(crate) fn of_job(
    scenario: &Scenario,
    job: &Job,
    seed: u64,
    quick: bool,
) -> Result<Vec<PointLine>, String> {
    let mut by_series = Vec::new();
    for series in job.series(scenario) {
        let is_bare = quick || scenario.is_map() || !scenario.series[series].experiment.has_costs;
        let levels: &[Level] = if is_bare { &[Level::Median] } else { &Level::ALL };
        let settings = scenario.settings(job, series);
        let values = scenario.sweep_values();
        let task = scenario.task(&settings, &values, quick);
        let of = &scenario.series[series];
        let seed = job.seed(seed);
        let run = |level: &Level| {
            // Other requests at each level: the band then has what chance does, too.
            let seed = seed.wrapping_add(*level as u64);
            (of.experiment.run)(&task, *level, seed).map(|rows| (*level, rows))
        };
        let runs = levels.iter().map(run).collect::<Result<Runs, String>>()?;
        by_series.push((series, runs));
    }
    if scenario.is_map() {
        return Ok(cell(scenario, job, &by_series).into_iter().collect());
    }
    Ok(by_series.iter().flat_map(|(series, runs)| lines(scenario, job, *series, runs)).collect())
}

/// The points of a series.
fn lines(
    scenario: &Scenario,
    job: &Job,
    series: usize,
    runs: &[(Level, Vec<Row>)],
) -> Vec<PointLine> {
    let of = &scenario.series[series];
    let median = runs.iter().find(|(level, _)| *level == Level::Median);
    let Some((_, rows)) = median else { return Vec::new() };
    let point = |(number, row): (usize, &Row)| {
        let at = row.at.map(|at| at / scenario.read.x.factor);
        let x = at.unwrap_or_else(|| scenario.axes.x[job.x.unwrap_or(number)]);
        let y = row.values.get(of.value).copied().filter(|y| y.is_finite());
        let saturated = row.saturated || y.is_none();
        let at_levels = runs.iter().filter_map(|(_, rows)| rows.get(number));
        let (band, saturated_runs) = band(at_levels, of.value);
        let more =
            row.values.iter().filter(|(name, value)| **name != of.value && value.is_finite());
        let more = more.map(|(name, value)| ((*name).to_owned(), rounded(*value)));
        // Where some of the runs have no value nobody knows how wide the band is: it is said
        // instead of drawn.
        let unknown = (!saturated && saturated_runs > 0)
            .then(|| ("saturated_runs".to_owned(), saturated_runs as f64));
        PointLine {
            figure: scenario.name().to_owned(),
            panel: scenario.panels[job.panel].clone(),
            series: of.name.clone(),
            x: rounded(x),
            y: rounded(y.unwrap_or(0.0)),
            band: band.filter(|_| !saturated && runs.len() > 1),
            saturated,
            more: more.chain(unknown).collect(),
        }
    };
    rows.iter().enumerate().map(point).collect()
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

/// The cell of a map: who does best.
fn cell(scenario: &Scenario, job: &Job, by_series: &[(usize, Runs)]) -> Option<PointLine> {
    let mut all: Vec<(&str, f64)> = Vec::new();
    for (series, runs) in by_series {
        let of = &scenario.series[*series];
        let row = runs.first().and_then(|(_, rows)| rows.first());
        let found = row.filter(|row| !row.saturated).and_then(|row| row.values.get(of.value));
        let Some(value) = found.copied().filter(|value| value.is_finite()) else { continue };
        all.push((&of.name, value));
    }
    // As good as the least, not as whoever was looked at before: else each could be a little worse
    // than the next.
    let least = all.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let best = all.iter().find(|(_, value)| value * (1.0 - EVEN) <= least);
    let name = best.map_or("", |(name, _)| *name);
    let more = all.iter().map(|(name, value)| ((*name).to_owned(), rounded(*value))).collect();
    Some(PointLine {
        figure: scenario.name().to_owned(),
        panel: scenario.panels[job.panel].clone(),
        series: if best.is_some() { name } else { &scenario.series.first()?.name }.to_owned(),
        x: *scenario.axes.x.get(job.x?)?,
        y: *scenario.axes.y.get(job.y?)?,
        band: None,
        saturated: best.is_none(),
        more,
    })
}

/// Six digits: more say nothing, and fewer bytes are easier to look at.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn row(y: f64, saturated: bool) -> Row {
        Row { values: BTreeMap::from([("mean_us", y)]), saturated, ..Row::default() }
    }

    /// The only point of a scenario that has gone so at its three levels.
    fn point(rows: [Row; 3]) -> PointLine {
        let text = r#"
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
        let scenario = Scenario::parse(text).expect("it is sound");
        let runs: Vec<_> =
            Level::ALL.into_iter().zip(rows).map(|(level, row)| (level, vec![row])).collect();
        let job = Job { panel: 0, only: Some(0), x: Some(0), y: None };
        lines(&scenario, &job, 0, &runs).remove(0)
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
        let winner = |values: [f64; 3]| {
            let runs = values.map(|y| vec![(Level::Median, vec![row(y, y > 999.0)])]);
            let by_series: Vec<(usize, Runs)> = runs.into_iter().enumerate().collect();
            let cell = cell(&scenario, &job, &by_series).expect("it is a cell");
            (cell.series, cell.saturated)
        };
        assert_eq!(winner([100.0, 98.0, 98.0]), ("one".to_owned(), false));
        // The first is not as good as the third, though nearly as good as the second.
        assert_eq!(winner([100.0, 98.0, 96.0]), ("two".to_owned(), false));
        assert_eq!(winner([1000.0, 500.0, 1000.0]), ("two".to_owned(), false));
        assert!(winner([1000.0; 3]).1);
    }

    #[test]
    fn six_digits_are_kept() {
        for (value, expected) in [(0.0, 0.0), (1.0 / 3.0, 0.333_333), (-1_234_567.0, -1_234_570.0)]
        {
            assert_eq!(rounded(value), expected);
        }
    }
}
