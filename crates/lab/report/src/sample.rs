//! A small figure for tests: two series of three points, two claims.

use std::collections::BTreeMap;

use crate::line::{
    Axis, Claim, FigureLine, Kind, Line, Origin, Parameter, PointLine, SCHEMA_VERSION, Scale,
    SeriesHead, Whose,
};

/// What the figure is.
pub(crate) fn figure() -> FigureLine {
    FigureLine {
        schema_version: SCHEMA_VERSION,
        figure: "fig".to_owned(),
        order: 1,
        title: "Delay against load".to_owned(),
        source: "A paper, figure 1".to_owned(),
        text: "Two policies.".to_owned(),
        kind: Kind::Lines,
        x: axis("Offered load", "kpps"),
        y: axis("p99 latency", "us"),
        value: None,
        panels: vec![String::new()],
        series: vec![series("one", "One"), series("two", "Two")],
        parameters: vec![Parameter {
            name: "cores".to_owned(),
            value: "10".to_owned(),
            source: "the paper, section 4".to_owned(),
        }],
        seed: 7,
        command: "calisto sim fig".to_owned(),
    }
}

/// All its lines, points of series `one` first.
pub(crate) fn lines() -> Vec<Line> {
    let mut lines = vec![Line::Figure(figure())];
    for (name, factor) in [("one", 1.0), ("two", 2.0)] {
        for x in [1.0, 2.0, 4.0] {
            lines.push(Line::Point(point(name, x, factor * x * 10.0)));
        }
    }
    lines.push(Line::Claim(claim(Some(true))));
    let other = Claim { claim: "Two is better".to_owned(), holds: Some(false), ..claim(None) };
    lines.push(Line::Claim(other));
    lines
}

/// A map of two by two cells, won by `one`, `one`, `two` and nobody.
pub(crate) fn map() -> Vec<Line> {
    let head = FigureLine {
        kind: Kind::Map,
        y: axis("Skew", ""),
        value: Some(axis("p99 latency", "us")),
        series: ["one", "two"].map(|name| SeriesHead { points: 4, ..series(name, name) }).into(),
        ..figure()
    };
    let cell = |name: &str, x, y, saturated| {
        let more = [("one".to_owned(), 10.0), ("two".to_owned(), 20.0)].into();
        Line::Point(PointLine { more, saturated, ..point(name, x, y) })
    };
    vec![
        Line::Figure(head),
        cell("one", 0.5, 0.0, false),
        cell("one", 0.9, 0.0, false),
        cell("two", 0.5, 1.2, false),
        cell("two", 0.9, 1.2, true),
    ]
}

pub(crate) fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), scale: Scale::Linear }
}

pub(crate) fn series(name: &str, label: &str) -> SeriesHead {
    let (name, label) = (name.to_owned(), label.to_owned());
    SeriesHead { name, label, origin: Origin::Simulated, points: 3 }
}

pub(crate) fn point(series: &str, x: f64, y: f64) -> PointLine {
    PointLine {
        figure: "fig".to_owned(),
        panel: String::new(),
        series: series.to_owned(),
        x,
        y,
        band: None,
        saturated: false,
        more: BTreeMap::new(),
        runs: BTreeMap::new(),
        tie: false,
    }
}

pub(crate) fn claim(holds: Option<bool>) -> Claim {
    Claim {
        figure: "fig".to_owned(),
        claim: "One is better".to_owned(),
        source: "A paper, section 5".to_owned(),
        whose: Whose::Paper,
        test: "y is lower; ours".to_owned(),
        runs: None,
        holds,
        because: "10 us against 20 us at 1 kpps".to_owned(),
        hangs_on: Vec::new(),
    }
}
