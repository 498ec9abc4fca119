//! Paper by paper: every figure, table and number of the five papers that this project began with,
//! and what a run has beside it. The texts are `papers.toml`; the numbers come from the points.

use report::{Figure, Ours, Paper, PaperRow, PointLine, Report};
use serde::Deserialize;

use crate::library;
use crate::sweep::Scenario;

const TEXT: &str = include_str!("../papers.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    paper: Vec<PaperText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperText {
    title: String,
    row: Vec<RowText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowText {
    there: String,
    says: String,
    here: String,
    #[serde(default)]
    figures: Vec<String>,
    #[serde(default)]
    ours: Vec<OursText>,
}

/// A number of a run: where it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OursText {
    what: String,
    figure: String,
    /// Without it the first one.
    panel: Option<String>,
    series: String,
    /// The difference to this series, in per cent.
    than: Option<String>,
    /// Without it that of the axis.
    value: Option<String>,
    /// Without it the last place of the axis.
    at: Option<f64>,
    #[serde(default)]
    unit: String,
}

/// What the papers say, with the numbers of a report's runs.
///
/// # Panics
/// Never: the texts come with the program, and a test reads them.
pub fn beside(report: &Report) -> Vec<Paper> {
    let file: File = toml::from_str(TEXT).expect("the texts that come with the program are sound");
    let papers = file.paper.into_iter().map(|paper| Paper {
        title: paper.title,
        rows: paper.row.into_iter().map(|row| row_of(row, report)).collect(),
    });
    papers.collect()
}

fn row_of(row: RowText, report: &Report) -> PaperRow {
    let RowText { there, says, here, figures, ours } = row;
    let ours = ours.into_iter().map(|ours| {
        let number = number(&ours, report);
        Ours { what: ours.what, number }
    });
    PaperRow { there, says, here, figures, ours: ours.collect() }
}

/// What a point has: on average, and in each run where that is kept.
struct Found {
    mean: f64,
    runs: Vec<f64>,
    /// More was asked for than could be served.
    is_saturated: bool,
}

fn number(ours: &OursText, report: &Report) -> Option<String> {
    let figure = report.figures().iter().find(|one| one.head().figure == ours.figure)?;
    let scenario = library::find(&ours.figure).ok()?;
    let own = found(ours, &ours.series, &scenario, figure)?;
    let Some(than) = &ours.than else {
        if own.is_saturated {
            return Some("saturated".to_owned());
        }
        return Some(shown(own.mean, &own.runs, &ours.unit, false));
    };
    let other = found(ours, than, &scenario, figure)?;
    match (own.is_saturated, other.is_saturated) {
        (true, true) => return Some("both saturated".to_owned()),
        (true, false) => return Some(format!("saturated, where {than} is not")),
        (false, true) => return Some(format!("served, where {than} is saturated")),
        (false, false) => {}
    }
    let percent = |own: f64, other: f64| 100.0 * (own / other - 1.0);
    let runs: Vec<f64> =
        own.runs.iter().zip(&other.runs).map(|(own, other)| percent(*own, *other)).collect();
    if other.mean == 0.0 || runs.iter().any(|ratio| !ratio.is_finite()) {
        return Some(format!("{} against nothing", plain(own.mean)));
    }
    Some(shown(percent(own.mean, other.mean), &runs, "%", true))
}

fn found(ours: &OursText, series: &str, scenario: &Scenario, figure: &Figure) -> Option<Found> {
    let own = scenario.series.iter().find(|one| one.name == series);
    let of_axis = || scenario.read.y.value.get_ref().as_str();
    // A paper's own points have no other value than that of the axis.
    let own_value = own.map_or_else(of_axis, |one| one.value);
    let panel = ours.panel.as_ref().or(scenario.panels.first())?;
    let is_of = |point: &&PointLine| point.series == series && point.panel == *panel;
    let mut points = figure.points().filter(is_of);
    let point = match ours.at {
        Some(at) => points.find(|point| point.x == at)?,
        // The last one of the whole figure, and not of what there is of it.
        None => points.max_by(|one, other| one.x.total_cmp(&other.x)).filter(|point| {
            scenario.axes.x.iter().all(|x| *x <= point.x) && figure.coverage().lacks.is_empty()
        })?,
    };
    let value = ours.value.as_deref().unwrap_or(own_value);
    let mean = if value == own_value { point.y } else { *point.more.get(value)? };
    let has_full_run = point.runs.get("saturated").is_some_and(|runs| runs.contains(&1.0));
    let runs = point.runs.get(value).filter(|_| !has_full_run).cloned().unwrap_or_default();
    let is_saturated = point.saturated && value.ends_with("_us");
    Some(Found { mean, runs, is_saturated })
}

/// A number with its unit, and from where to where the runs go.
fn shown(mean: f64, runs: &[f64], unit: &str, is_signed: bool) -> String {
    let text = |value: f64| if is_signed { signed(value) } else { plain(value) };
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    let low = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (text(low), text(high));
    if runs.len() < 2 || low == high {
        return format!("{}{unit}", text(mean));
    }
    format!("{}{unit} ({low} to {high} in {} runs)", text(mean), runs.len())
}

/// Three digits that count.
fn plain(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn signed(value: f64) -> String {
    // A tenth of a per cent is what a difference is told to.
    let text = format!("{:.1}", value.abs());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "0" => "0".to_owned(),
        _ if value < 0.0 => format!("- {text}"),
        _ => format!("+ {text}"),
    }
}

#[cfg(test)]
mod tests;
