//! What a line must be, by itself: everything in it is bounded, because files come from anywhere.

use std::collections::BTreeSet;

use crate::line::{Axis, Claim, FigureLine, Kind, Line, PointLine, SCHEMA_VERSION, Swing};

/// Characters of a name: a figure, a panel, a series, a column.
const NAME_MAX: usize = 64;
/// Characters of a label, a title, a unit: what is drawn.
const LABEL_MAX: usize = 200;
/// Characters of what is read as prose.
const PROSE_MAX: usize = 10_000;
/// Panels of a figure: more would be too small to read.
const PANELS_MAX: usize = 24;
/// Series of a figure: colours times shapes.
const SERIES_MAX: usize = 64;
/// Parameters of a figure.
const PARAMETERS_MAX: usize = 200;
/// Runs of a point.
const RUNS_MAX: usize = 1000;
/// Costs that a claim hangs on.
const SWINGS_MAX: usize = 64;
/// Points of a series in one panel: more than there are pixels.
const POINTS_MAX: usize = 10_000;
/// Columns beside a point's own: of one point, and of all points of a figure together.
pub(crate) const COLUMNS_MAX: usize = 64;
/// Of a coordinate's size; beyond it (and under its inverse) axes lose their digits.
const SIZE_MAX: f64 = 1e18;

impl Line {
    /// Whether the line can be used at all.
    ///
    /// # Errors
    /// What is wrong with it, naming the field and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Figure(figure) => figure_line(figure),
            Self::Point(point) => point_line(point),
            Self::Claim(claim) => claim_line(claim),
        }
    }
}

fn figure_line(line: &FigureLine) -> Result<(), String> {
    if line.schema_version != SCHEMA_VERSION {
        return Err(format!(
            "schema_version is {}, and only {SCHEMA_VERSION} can be read",
            line.schema_version
        ));
    }
    word("figure", &line.figure)?;
    text("title", &line.title, 1, LABEL_MAX)?;
    text("source", &line.source, 0, PROSE_MAX)?;
    text("text", &line.text, 0, PROSE_MAX)?;
    text("command", &line.command, 0, PROSE_MAX)?;
    axis("x", &line.x)?;
    axis("y", &line.y)?;
    match (&line.value, line.kind) {
        (Some(value), Kind::Map) => axis("value", value)?,
        (Some(_), Kind::Lines) => return Err("value is for maps: this figure has y".to_owned()),
        (None, _) => {}
    }
    count("panels", line.panels.len(), 1, PANELS_MAX)?;
    for panel in &line.panels {
        text("a name in panels", panel, 0, NAME_MAX)?;
    }
    different("panels", line.panels.iter().map(String::as_str))?;
    count("series", line.series.len(), 1, SERIES_MAX)?;
    for series in &line.series {
        text("name of a series", &series.name, 1, NAME_MAX)?;
        text("label of a series", &series.label, 1, LABEL_MAX)?;
        count("points of a series", series.points, 0, POINTS_MAX)?;
    }
    different("series", line.series.iter().map(|series| series.name.as_str()))?;
    count("parameters", line.parameters.len(), 0, PARAMETERS_MAX)?;
    for parameter in &line.parameters {
        text("name of a parameter", &parameter.name, 1, LABEL_MAX)?;
        text("value of a parameter", &parameter.value, 0, PROSE_MAX)?;
        text("source of a parameter", &parameter.source, 0, PROSE_MAX)?;
    }
    Ok(())
}

fn point_line(line: &PointLine) -> Result<(), String> {
    word("figure", &line.figure)?;
    text("panel", &line.panel, 0, NAME_MAX)?;
    text("series", &line.series, 1, NAME_MAX)?;
    coordinate("x", line.x)?;
    coordinate("y", line.y)?;
    if let Some((low, high)) = line.band {
        coordinate("the lower end of band", low)?;
        coordinate("the upper end of band", high)?;
        if low > high {
            return Err(format!("band runs from {low} down to {high}"));
        }
    }
    count("more", line.more.len(), 0, COLUMNS_MAX)?;
    for (name, value) in &line.more {
        text("a name in more", name, 1, NAME_MAX)?;
        coordinate(name, *value)?;
    }
    count("runs", line.runs.len(), 0, COLUMNS_MAX)?;
    for (name, values) in &line.runs {
        text("a name in runs", name, 1, NAME_MAX)?;
        count("a value's runs", values.len(), 0, RUNS_MAX)?;
        values.iter().try_for_each(|value| coordinate(name, *value))?;
    }
    Ok(())
}

fn claim_line(line: &Claim) -> Result<(), String> {
    word("figure", &line.figure)?;
    text("claim", &line.claim, 1, PROSE_MAX)?;
    text("source", &line.source, 0, PROSE_MAX)?;
    text("test", &line.test, 0, PROSE_MAX)?;
    text("because", &line.because, 0, PROSE_MAX)?;
    count("hangs_on", line.hangs_on.len(), 0, SWINGS_MAX)?;
    for Swing { cost, low, median, high, turns: _ } in &line.hangs_on {
        text("a cost in hangs_on", cost, 1, NAME_MAX)?;
        [low, median, high].into_iter().try_for_each(|value| coordinate(cost, *value))?;
    }
    Ok(())
}

fn axis(name: &str, axis: &Axis) -> Result<(), String> {
    text(&format!("label of {name}"), &axis.label, 1, LABEL_MAX)?;
    text(&format!("unit of {name}"), &axis.unit, 0, NAME_MAX)
}

/// A figure's name becomes a file's name and an anchor of the page.
fn word(name: &str, value: &str) -> Result<(), String> {
    text(name, value, 1, NAME_MAX)?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if value.bytes().all(fits) && !value.starts_with('-') {
        return Ok(());
    }
    Err(format!("{name} is {value:?}: only lower-case letters, digits and hyphens make a name"))
}

fn text(name: &str, value: &str, min: usize, max: usize) -> Result<(), String> {
    let length = value.chars().count();
    if length < min {
        return Err(format!("{name} is empty"));
    }
    if length > max {
        return Err(format!("{name} has {length} characters: at most {max} are read"));
    }
    Ok(())
}

fn count(name: &str, count: usize, min: usize, max: usize) -> Result<(), String> {
    if (min..=max).contains(&count) {
        return Ok(());
    }
    Err(format!("{name}: {count} is not {min} to {max}"))
}

fn coordinate(name: &str, value: f64) -> Result<(), String> {
    if !value.is_finite() {
        return Err(format!("{name} is {value}: there is no place for that on an axis"));
    }
    let size = value.abs();
    if size > SIZE_MAX || (size > 0.0 && size < SIZE_MAX.recip()) {
        return Err(format!(
            "{name} is {value:e}: it must be 0, or from {:e} to {SIZE_MAX:e}",
            SIZE_MAX.recip()
        ));
    }
    Ok(())
}

fn different<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("{what} names {name:?} twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn wrong(line: &Line) -> String {
        line.check().expect_err("it cannot be used")
    }

    #[test]
    fn what_the_figures_write_is_right() {
        for line in sample::lines() {
            assert_eq!(line.check(), Ok(()), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_number_has_no_place_on_an_axis() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 1e-300] {
            let mut point = sample::point("one", 1.0, 2.0);
            point.y = value;
            assert!(wrong(&Line::Point(point)).starts_with("y is "));
            let mut point = sample::point("one", 1.0, 2.0);
            point.x = value;
            assert!(wrong(&Line::Point(point)).starts_with("x is "));
            let mut point = sample::point("one", 1.0, 2.0);
            point.band = Some((1.0, value));
            assert!(wrong(&Line::Point(point)).contains("band"));
            let mut point = sample::point("one", 1.0, 2.0);
            point.more.insert("moved_flows".to_owned(), value);
            assert!(wrong(&Line::Point(point)).starts_with("moved_flows is "));
        }
        let mut point = sample::point("one", 1.0, 2.0);
        point.band = Some((3.0, 1.0));
        assert!(wrong(&Line::Point(point)).contains("down to"));
    }

    #[test]
    fn a_figure_is_refused_with_the_field_that_is_wrong() {
        type Spoil = fn(&mut FigureLine);
        let cases: [(&str, Spoil); 11] = [
            ("schema_version is 2", |line| line.schema_version = 2),
            ("figure is \"../x\"", |line| "../x".clone_into(&mut line.figure)),
            ("figure is \"-x\"", |line| "-x".clone_into(&mut line.figure)),
            ("figure is empty", |line| line.figure.clear()),
            ("title is empty", |line| line.title.clear()),
            ("label of x is empty", |line| line.x.label.clear()),
            ("panels: 0 is not", |line| line.panels.clear()),
            ("panels names \"\" twice", |line| line.panels.push(String::new())),
            ("series: 0 is not", |line| line.series.clear()),
            ("points of a series", |line| line.series[0].points = 1 << 40),
            ("value is for maps", |line| line.value = Some(line.y.clone())),
        ];
        for (expected, spoil) in cases {
            let mut line = sample::figure();
            spoil(&mut line);
            let wrong = wrong(&Line::Figure(line));
            assert!(wrong.contains(expected), "{wrong} for {expected}");
        }
    }

    #[test]
    fn prose_has_an_end() {
        let mut claim = sample::claim(Some(true));
        claim.because = "x".repeat(PROSE_MAX + 1);
        assert!(wrong(&Line::Claim(claim)).contains("at most 10000"));
    }
}
