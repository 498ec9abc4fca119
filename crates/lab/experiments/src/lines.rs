//! Points with what they are of, as lines.

use std::collections::BTreeMap;

use report::{Axis, FigureLine, Line, PointLine, SCHEMA_VERSION, SeriesHead};

use crate::chosen;
use crate::claim;
use crate::sweep::{Job, Jobs, Scenario};

/// The lines of a run: what the figure is, its points, the papers' points, its claims.
pub(crate) fn all(
    scenario: &Scenario,
    command: &str,
    seed: u64,
    points: Vec<PointLine>,
) -> Vec<Line> {
    let claims = claim::all(scenario, &points);
    let head = Line::Figure(head(scenario, command, seed));
    let points = points.into_iter().chain(papers(scenario)).map(Line::Point);
    std::iter::once(head).chain(points).chain(claims.into_iter().map(Line::Claim)).collect()
}

fn head(scenario: &Scenario, command: &str, seed: u64) -> FigureLine {
    let read = &scenario.read;
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
    };
    FigureLine {
        schema_version: SCHEMA_VERSION,
        figure: scenario.name().to_owned(),
        order: read.order,
        title: read.title.clone(),
        source: read.source.clone(),
        text: read.text.trim().to_owned(),
        kind: read.kind,
        x: axis(&read.x.label, &read.x.unit, read.x.scale),
        y: axis(&read.y.label, &read.y.unit, read.y.scale),
        value: read.cell.as_ref().map(|cell| axis(&cell.label, &cell.unit, cell.scale)),
        panels: scenario.panels.clone(),
        series: series(scenario),
        parameters: chosen::parameters(scenario),
        seed,
        command: command.to_owned(),
    }
}

fn series(scenario: &Scenario) -> Vec<SeriesHead> {
    let own = scenario.series.iter().enumerate().map(|(number, series)| SeriesHead {
        name: series.name.clone(),
        label: series.label.clone(),
        origin: series.origin,
        points: promised(scenario, number),
    });
    let papers = scenario.read.paper.iter().map(|paper| SeriesHead {
        name: paper.name.get_ref().clone(),
        label: paper.label.clone(),
        origin: paper.origin,
        points: paper.points.get_ref().len(),
    });
    own.chain(papers).collect()
}

/// How many points a series has in every panel; of a map, in how many cells it takes part.
fn promised(scenario: &Scenario, series: usize) -> usize {
    if scenario.is_map() {
        return scenario.axes.x.len() * scenario.axes.y.len();
    }
    let values = scenario.sweep_values();
    let is_of = |job: &&Job| job.panel == 0 && job.only == Some(series);
    let rows = |job: &Job| {
        let settings = scenario.settings(job, series);
        (scenario.series[series].experiment.rows)(&scenario.task(&settings, &values, false))
    };
    Jobs::of(scenario).all.iter().filter(is_of).map(rows).sum()
}

fn papers(scenario: &Scenario) -> Vec<PointLine> {
    let mut points = Vec::new();
    for paper in &scenario.read.paper {
        let only = paper.panel.as_ref().map(toml::Spanned::get_ref);
        let panels = scenario.panels.iter().filter(|panel| only.is_none_or(|only| only == *panel));
        for panel in panels {
            points.extend(paper.points.get_ref().iter().map(|&(x, y)| PointLine {
                figure: scenario.name().to_owned(),
                panel: panel.clone(),
                series: paper.name.get_ref().clone(),
                x,
                y,
                band: None,
                saturated: false,
                more: BTreeMap::new(),
                runs: BTreeMap::new(),
                tie: false,
            }));
        }
    }
    points
}
