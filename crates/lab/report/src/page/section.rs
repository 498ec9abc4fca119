//! One figure on the page.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::tornado;
use crate::figure::Figure;
use crate::frame::with_unit;
use crate::line::{Claim, FigureLine, Kind, PointLine};
use crate::look::origin_name;
use crate::markup::Escaped;
use crate::number;

/// Writes the section of a figure.
pub(super) fn write(page: &mut String, figure: &Figure) {
    let head = figure.head();
    let (name, title) = (&head.figure, Escaped(&head.title));
    let _ = writeln!(page, "<section id=\"{name}\">\n<h2>{title}</h2>");
    if !head.source.is_empty() {
        let _ = writeln!(page, "<p class=\"quiet\">{}</p>", Escaped(&head.source));
    }
    lacks(page, figure);
    let _ = writeln!(page, "<figure>\n{}", figure.inline_svg());
    finding(page, figure.claims());
    *page += "</figure>\n";
    for paragraph in head.text.split("\n\n").filter(|text| !text.trim().is_empty()) {
        let _ = writeln!(page, "<p>{}</p>", Escaped(paragraph.trim()));
    }
    claims(page, figure.claims());
    tornado::write(page, figure.claims());
    points(page, figure);
    parameters(page, head);
    commands(page, figure);
    *page += "</section>\n";
}

/// What the picture shows, as far as somebody claims something of it: the first such claim that is
/// decided.
fn finding(page: &mut String, claims: &[Claim]) {
    let Some((claim, holds)) = claims.iter().find_map(|claim| Some((claim, claim.holds?))) else {
        return;
    };
    let word = if holds { "So it is" } else { "It is not so" };
    let (says, because) = (Escaped(&claim.claim), Escaped(&claim.because));
    let _ = writeln!(page, "<figcaption><b>{says}?</b> {word}: {because}.</figcaption>");
}

/// The first cell of a claim's row.
pub(super) fn verdict(claim: &Claim) -> String {
    let (class, words) = match (claim.holds, claim.runs) {
        (Some(true), _) => ("yes", "\u{2713} holds"),
        (Some(false), _) => ("no", "\u{2717} does not hold"),
        (None, Some(_)) => ("quiet", "? is open"),
        (None, None) => ("quiet", "? is not known"),
    };
    let runs = claim.runs.map_or(String::new(), |(holds, of)| {
        format!("<br/><span class=\"quiet\">in {holds} of {of} runs</span>")
    });
    format!("<td class=\"verdict {class}\">{words}{runs}</td>")
}

fn lacks(page: &mut String, figure: &Figure) {
    let coverage = figure.coverage();
    if coverage.lacks.is_empty() {
        return;
    }
    let (there, promised) = (coverage.there, coverage.promised);
    let _ = writeln!(page, "<div class=\"lacks\"><p><b>{there} of {promised} points.</b></p>");
    for lack in &coverage.lacks {
        let _ = writeln!(page, "<p>{}.</p>", Escaped(lack));
    }
    *page += "</div>\n";
}

fn claims(page: &mut String, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    *page += "<h3>Claims</h3>\n<div class=\"wide\"><table class=\"claims\">\n";
    *page += "<tr><th>Here it</th><th>Claim</th><th>Who says it</th><th>Because</th></tr>\n";
    for claim in claims {
        let _ = writeln!(
            page,
            "<tr>{}<td>{}<br/><span class=\"quiet\">{}</span></td><td>{}: {}</td><td>{}</td></tr>",
            verdict(claim),
            Escaped(&claim.claim),
            Escaped(&claim.test),
            Escaped(claim.whose.words()),
            Escaped(&claim.source),
            Escaped(&claim.because),
        );
    }
    *page += "</table></div>\n";
}

fn points(page: &mut String, figure: &Figure) {
    let head = figure.head();
    let columns: BTreeSet<&str> =
        figure.points().flat_map(|point| point.more.keys().map(String::as_str)).collect();
    let panelled = head.panels.iter().any(|panel| !panel.is_empty());
    let count = figure.points().count();
    let _ = writeln!(page, "<details>\n<summary>Table of all {count} points</summary>");
    *page += "<div class=\"wide\"><table class=\"points\">\n<tr>";
    if panelled {
        *page += "<th>Panel</th>";
    }
    let series = match head.kind {
        Kind::Lines => "Series",
        Kind::Map => "Best",
    };
    let _ = write!(page, "<th>{series}</th><th>Origin</th>");
    for name in [with_unit(&head.x), with_unit(&head.y), "from".to_owned(), "to".to_owned()] {
        let _ = write!(page, "<th class=\"number\">{}</th>", Escaped(&name));
    }
    for name in &columns {
        let _ = write!(page, "<th class=\"number\">{}</th>", Escaped(name));
    }
    *page += "</tr>\n";
    for panel in 0..head.panels.len() {
        for series in &head.series {
            for point in figure.series(panel, series) {
                *page += "<tr>";
                if panelled {
                    let _ = write!(page, "<td>{}</td>", Escaped(&head.panels[panel]));
                }
                let origin = origin_name(series.origin);
                let _ = write!(page, "<td>{}</td><td>{origin}</td>", Escaped(&series.label));
                values(page, head, point, &columns);
                *page += "</tr>\n";
            }
        }
    }
    *page += "</table></div>\n</details>\n";
}

fn values(page: &mut String, head: &FigureLine, point: &PointLine, columns: &BTreeSet<&str>) {
    let (low, high) = point.band.unzip();
    let own = match head.kind {
        Kind::Lines if point.saturated => [Some("saturated".to_owned()), None, None],
        Kind::Lines | Kind::Map => {
            [Some(point.y), low, high].map(|value| value.map(number::result))
        }
    };
    let more = columns.iter().map(|name| point.more.get(*name).copied().map(number::result));
    for value in [Some(number::result(point.x))].into_iter().chain(own).chain(more) {
        let _ = write!(page, "<td class=\"number\">{}</td>", value.unwrap_or_default());
    }
}

fn parameters(page: &mut String, head: &FigureLine) {
    let count = head.parameters.len();
    let _ = writeln!(
        page,
        "<details>\n<summary>{count} parameters and where they come from; seed {}</summary>",
        head.seed
    );
    *page += "<div class=\"wide\"><table class=\"parameters\">\n";
    *page += "<tr><th>Parameter</th><th>Value</th><th>Source</th></tr>\n";
    for parameter in &head.parameters {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            Escaped(&parameter.name),
            Escaped(&parameter.value),
            Escaped(&parameter.source),
        );
    }
    let _ =
        writeln!(page, "<tr><td>seed</td><td>{}</td><td>all that is random</td></tr>", head.seed);
    *page += "</table></div>\n</details>\n";
}

fn commands(page: &mut String, figure: &Figure) {
    let commands: Vec<&String> = figure.commands().iter().filter(|text| !text.is_empty()).collect();
    if commands.is_empty() {
        return;
    }
    *page += "<h3>To repeat it</h3>\n<pre>";
    for command in commands {
        let _ = writeln!(page, "{}", Escaped(command));
    }
    *page += "</pre>\n";
}
