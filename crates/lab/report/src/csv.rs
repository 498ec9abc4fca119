//! The points of a figure as comma-separated values (RFC 4180), for other programs to draw.

use std::collections::BTreeSet;

use crate::figure::Figure;
use crate::frame::with_unit;
use crate::line::{Axis, PointLine};
use crate::look::origin_name;

/// Names that a value of a run may have: its own column beside that of the mean.
const OF_RUNS: &str = " of each run";

impl Figure {
    /// All points, a line each: where it is, its value, the band, whether it was too much, what
    /// else came out, and what each run had, apart by spaces. Numbers are as they were computed.
    #[must_use]
    pub fn csv(&self) -> String {
        let head = self.head();
        let more: BTreeSet<&str> = names(self.points(), |point| point.more.keys());
        let runs: BTreeSet<&str> = names(self.points(), |point| point.runs.keys());
        let axis = |axis: &Axis| with_unit(axis);
        let mut heads: Vec<String> =
            ["panel", "series", "origin"].into_iter().map(str::to_owned).collect();
        heads.extend([axis(&head.x), axis(&head.y)]);
        heads.extend(["from", "to", "saturated", "tie"].into_iter().map(str::to_owned));
        heads.extend(more.iter().map(|name| (*name).to_owned()));
        heads.extend(runs.iter().map(|name| format!("{name}{OF_RUNS}")));
        let mut csv = String::new();
        line(&mut csv, heads.into_iter().map(|name| text(&name)));
        for (number, panel) in head.panels.iter().enumerate() {
            for series in &head.series {
                for point in self.series(number, series) {
                    let own = [
                        text(panel),
                        text(&series.name),
                        origin_name(series.origin).to_owned(),
                        point.x.to_string(),
                        point.y.to_string(),
                        point.band.map_or(String::new(), |(low, _)| low.to_string()),
                        point.band.map_or(String::new(), |(_, high)| high.to_string()),
                        point.saturated.to_string(),
                        point.tie.to_string(),
                    ];
                    let more = more.iter().map(|name| {
                        point.more.get(*name).map_or(String::new(), ToString::to_string)
                    });
                    let runs = runs.iter().map(|name| {
                        let values = point.runs.get(*name).map_or(&[][..], Vec::as_slice);
                        let words: Vec<String> = values.iter().map(ToString::to_string).collect();
                        words.join(" ")
                    });
                    line(&mut csv, own.into_iter().chain(more).chain(runs));
                }
            }
        }
        csv
    }
}

fn names<'a, I: Iterator<Item = &'a String>>(
    points: impl Iterator<Item = &'a PointLine>,
    of: impl Fn(&'a PointLine) -> I,
) -> BTreeSet<&'a str> {
    points.flat_map(of).map(String::as_str).collect()
}

fn line(csv: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    *csv += &cells.join(",");
    *csv += "\r\n";
}

/// A text as one cell. Where a spreadsheet would take it for a formula it begins with an
/// apostrophe: files of results come from anywhere.
fn text(text: &str) -> String {
    let mark = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    let is_plain = |letter: char| !matches!(letter, ',' | '"' | '\n' | '\r');
    if mark.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("\"{mark}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;
    use crate::{Report, sample};

    fn csv(lines: Vec<Line>) -> Vec<String> {
        let report = Report::of(lines).expect("the lines are right");
        report.figures()[0].csv().split_terminator("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn every_point_is_a_line_with_its_value_its_band_and_what_each_run_had() {
        let mut lines = sample::lines();
        if let Line::Point(point) = &mut lines[1] {
            point.band = Some((9.5, 11.0));
            point.more.insert("moved_flows".to_owned(), 3.0);
            point.runs.insert("p99_us".to_owned(), vec![9.5, 10.0, 10.5]);
        }
        let csv = csv(lines);
        assert_eq!(csv.len(), 7, "{csv:?}");
        assert_eq!(
            csv[0],
            "panel,series,origin,Offered load (kpps),p99 latency (us),from,to,saturated,tie,\
             moved_flows,p99_us of each run"
        );
        assert_eq!(csv[1], ",one,simulated,1,10,9.5,11,false,false,3,9.5 10 10.5");
        assert_eq!(csv[4], ",two,simulated,1,20,,,false,false,,");
    }

    #[test]
    fn what_a_file_says_is_one_cell_and_never_a_formula() {
        assert_eq!(text("p99, of all"), "\"p99, of all\"");
        assert_eq!(text("a \"word\""), "\"a \"\"word\"\"\"");
        assert_eq!(text("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
        assert_eq!(text("sticky"), "sticky");
    }
}
