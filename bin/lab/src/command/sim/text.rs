//! Lines of results as tables for people, and what holds of the claims.

use cli::table::{Cell, Table};
use report::{Claim, FigureLine, Kind, Line, PointLine, Swing};

/// A table longer than this is thinned out: all points are in the file.
const ROWS_MAX: usize = 30;

/// All that a result file says, as far as it fits.
pub(super) fn of(lines: &[Line]) -> String {
    let mut text = String::new();
    let points = |figure: &FigureLine| -> Vec<&PointLine> {
        let of_figure = lines.iter().filter_map(|line| match line {
            Line::Point(point) if point.figure == figure.figure => Some(point),
            _ => None,
        });
        of_figure.collect()
    };
    for line in lines {
        match line {
            Line::Figure(figure) => {
                text += &format!("{}: {}\n{}\n", figure.figure, figure.title, figure.source);
                let points = points(figure);
                for panel in &figure.panels {
                    let of_panel: Vec<&PointLine> =
                        points.iter().copied().filter(|point| point.panel == *panel).collect();
                    text += &one_panel(figure, panel, &of_panel);
                }
            }
            Line::Claim(claim) => text += &verdict(claim),
            Line::Point(_) => {}
        }
    }
    text
}

fn one_panel(figure: &FigureLine, name: &str, points: &[&PointLine]) -> String {
    let (across, down) = match figure.kind {
        Kind::Lines => (&figure.y, &figure.x),
        Kind::Map => (figure.value.as_ref().unwrap_or(&figure.y), &figure.y),
    };
    let with_unit = |axis: &report::Axis| {
        if axis.unit.is_empty() {
            axis.label.clone()
        } else {
            format!("{} ({})", axis.label, axis.unit)
        }
    };
    let panel = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let table = match figure.kind {
        Kind::Lines => curves(figure, points, with_unit(down)),
        Kind::Map => map(points, with_unit(down)),
    };
    let along = if figure.kind == Kind::Map {
        format!("; across {}", with_unit(&figure.x))
    } else {
        String::new()
    };
    format!("\n{panel}{}{along}\n{}", with_unit(across), table.render())
}

/// A row for each `x`, a column for each series.
fn curves(figure: &FigureLine, points: &[&PointLine], head: String) -> Table {
    let series: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    let heads = std::iter::once(head).chain(series.iter().map(|name| (*name).to_owned()));
    let mut table = Table::with_heads(heads.collect());
    let xs = distinct(points.iter().map(|point| point.x));
    let step = xs.len().div_ceil(ROWS_MAX).max(1);
    for x in xs.iter().step_by(step) {
        let cell = |name: &&str| {
            let found = points.iter().find(|point| point.series == **name && point.x == *x);
            Cell::Number(found.map_or("-".to_owned(), |point| shown(point)))
        };
        let first = Cell::Number(number(*x));
        table.cells(std::iter::once(first).chain(series.iter().map(cell)).collect());
    }
    table
}

/// A row for each `y`, a column for each `x`: who does best.
fn map(points: &[&PointLine], head: String) -> Table {
    let xs = distinct(points.iter().map(|point| point.x));
    let heads = std::iter::once(head).chain(xs.iter().map(|x| number(*x)));
    let mut table = Table::with_heads(heads.collect());
    for y in distinct(points.iter().map(|point| point.y)) {
        let cell = |x: &f64| {
            let found = points.iter().find(|point| point.x == *x && point.y == y);
            Cell::Text(found.map_or("-".to_owned(), |point| match point {
                PointLine { saturated: true, .. } => "saturated".to_owned(),
                PointLine { tie: true, .. } => "=".to_owned(),
                _ => point.series.clone(),
            }))
        };
        table.cells(std::iter::once(Cell::Number(number(y))).chain(xs.iter().map(cell)).collect());
    }
    table
}

fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn shown(point: &PointLine) -> String {
    if point.saturated { "saturated".to_owned() } else { number(point.y) }
}

/// Four digits, without zeros that say nothing.
fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn verdict(claim: &Claim) -> String {
    let verdict = match claim.holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "open",
    };
    let runs = claim.runs.map_or(String::new(), |(holds, of)| format!(" in {holds} of {of} runs"));
    let Claim { claim: says, source, test, because, .. } = claim;
    let mut text = format!("\n{verdict}{runs}: {says}\n    ({source}; {test}; {because})\n");
    for Swing { cost, low, median, high, turns } in &claim.hangs_on {
        let turns = if *turns { ", which turns it" } else { "" };
        let [low, median, high] = [low, median, high].map(|value| number(*value));
        text += &format!("    hangs on {cost}: {low} to {high}, for {median}{turns}\n");
    }
    text
}
