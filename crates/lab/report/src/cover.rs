//! Series that cannot be seen, because others that are drawn later lie on them.

use crate::figure::Figure;
use crate::line::{PointLine, SeriesHead};
use crate::look::Look;
use crate::ruler::Ruler;

/// Nearer than this part of the axis two marks are one to the eye.
const NEAR: f64 = 0.012;

/// The labels of all series each of whose points lies under one of another series.
pub(crate) fn covered<'a>(figure: &'a Figure, looks: &[Look], up: &Ruler) -> Vec<&'a str> {
    let series = &figure.head().series;
    let mut is_covered = vec![true; series.len()];
    let mut is_there = vec![false; series.len()];
    for panel in 0..figure.head().panels.len() {
        let drawn = |series: &'a SeriesHead| {
            figure.series(panel, series).filter(|point| !point.saturated).collect::<Vec<_>>()
        };
        let all: Vec<Vec<&PointLine>> = series.iter().map(drawn).collect();
        for (number, points) in all.iter().enumerate() {
            let later = all.iter().zip(looks).skip(number + 1);
            let lines: Vec<&Vec<&PointLine>> =
                later.filter(|(_, look)| look.has_line()).map(|(points, _)| points).collect();
            let is_under = |point: &&PointLine| lines.iter().any(|line| hides(line, point, up));
            is_covered[number] &= points.iter().all(is_under);
            is_there[number] |= !points.is_empty();
        }
    }
    let all = series.iter().zip(is_covered).zip(is_there);
    all.filter(|((_, covered), there)| *covered && *there)
        .map(|((series, _), _)| series.label.as_str())
        .collect()
}

/// Whether a line, its points in the order of x, has one where `point` is.
fn hides(line: &[&PointLine], point: &PointLine, up: &Ruler) -> bool {
    let at = line.partition_point(|other| other.x < point.x);
    line.get(at).is_some_and(|other| {
        other.x == point.x && (up.place(other.y) - up.place(point.y)).abs() < NEAR
    })
}
