//! Where figures go: one JSON object a line, one aligned table a case, or a section of a page.

use std::io::{self, Write};

use base::Nanos;

use crate::error::Error;
use crate::figure::Figure;
use crate::place;

/// What figures are printed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A table for a terminal.
    Text,
    Json,
    /// A section of a page under docs/figures.
    Markdown,
}

/// Collects and prints the figures of one bench.
pub(crate) struct Report<'a> {
    bench: &'static str,
    case: &'static str,
    form: Form,
    out: &'a mut dyn Write,
    rows: Vec<Row>,
    case_began: Nanos,
    stolen_before: Vec<(usize, Nanos)>,
    machine: Option<String>,
}

impl<'a> Report<'a> {
    /// Figures of `bench`, printed to `out`.
    pub(crate) fn new(bench: &'static str, form: Form, out: &'a mut dyn Write) -> Self {
        Self {
            bench,
            case: "",
            form,
            out,
            rows: Vec::new(),
            case_began: Nanos::ZERO,
            stolen_before: Vec::new(),
            machine: None,
        }
    }

    /// Every figure says that it is of this machine and commit.
    #[must_use]
    pub(crate) fn of_machine(self, machine: String) -> Self {
        Self { machine: Some(machine), ..self }
    }

    /// A case begins. `text` says what is measured, where it runs and who makes the traffic.
    pub(crate) fn begin(&mut self, case: &'static str, text: &str) -> Result<(), Error> {
        self.case = case;
        self.case_began = sys::clock::now();
        self.stolen_before = sys::steal::per_cpu();
        let (bench, machine) =
            (self.bench, self.machine.as_deref().unwrap_or("nowhere in particular"));
        match self.form {
            Form::Json => {
                eprintln!("{case}: {text}");
                Ok(())
            }
            Form::Text => writeln!(self.out, "{bench} {case}: {text}\n on {machine}"),
            Form::Markdown => {
                let text = cell(text);
                let by = format!("Printed by `calisto bench {bench} --case {case} --markdown`");
                writeln!(self.out, "## {bench} {case}\n\n{by} on {machine}.\n\n{text}.\n")
            }
        }
        .map_err(Error::Output)
    }

    /// What is being done, for whoever waits.
    pub(crate) fn progress(&self, text: impl std::fmt::Display) {
        eprintln!("{} {}: {text}", self.bench, self.case);
    }

    /// One figure.
    pub(crate) fn figure(&mut self, figure: Figure) -> Result<(), Error> {
        let figure = figure.of(self.bench, self.case, self.machine.clone());
        if self.form == Form::Json {
            let line = serde_json::to_string(&figure).map_err(io::Error::other);
            return line.and_then(|line| writeln!(self.out, "{line}")).map_err(Error::Output);
        }
        self.rows.push(row(&figure));
        Ok(())
    }

    /// The case is over: the time that the hypervisor took from us meanwhile, and the table.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        let seconds = sys::clock::now().since(self.case_began).as_secs_f64().max(1e-3);
        let before = std::mem::take(&mut self.stolen_before);
        for (cpu, after) in sys::steal::per_cpu() {
            let was = before.iter().find(|&&(number, _)| number == cpu);
            if place::allowed().contains(&cpu)
                && let Some(&(_, was)) = was
            {
                let stolen = after.since(was).0 as f64 / 1e6 / seconds;
                self.figure(Figure::new(format!("stolen time, CPU {cpu}"), "ms/s", &[stolen]))?;
            }
        }
        self.print_rows().map_err(Error::Output)
    }

    fn print_rows(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let head = ["metric", "value", "min .. max", "baseline", "ratio", "target", ""];
        let head = head.map(str::to_owned);
        match self.form {
            Form::Json => return self.out.flush(),
            Form::Text => self.print_aligned(&head, &rows)?,
            Form::Markdown => {
                self.print_cells(&head)?;
                writeln!(self.out, "|{}", "---|".repeat(head.len()))?;
                rows.iter().try_for_each(|row| self.print_cells(row))?;
            }
        }
        writeln!(self.out)?;
        self.out.flush()
    }

    fn print_aligned(&mut self, head: &Row, rows: &[Row]) -> io::Result<()> {
        let width = |column: usize| {
            let cells = std::iter::once(head).chain(rows);
            cells.map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: [usize; 7] = std::array::from_fn(width);
        for row in std::iter::once(head).chain(rows) {
            let mut line = String::from(" ");
            for (cell, width) in row.iter().zip(widths) {
                line.push_str(&format!(" {cell:width$} "));
            }
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn print_cells(&mut self, row: &Row) -> io::Result<()> {
        let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
        writeln!(self.out, "| {} |", cells.join(" | "))
    }

    /// A case could not be run, or not to its end.
    pub(crate) fn not_measured(&mut self, error: &Error) -> Result<(), Error> {
        self.figure(Figure::missing("not measured", error.to_string()))
    }
}

/// A text that Markdown takes as it is, in a table too.
fn cell(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if matches!(character, '|' | '<' | '>' | '*' | '_' | '[' | ']' | '\\' | '`') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped.trim_end_matches('.').to_owned()
}

/// A line of a table.
type Row = [String; 7];

fn row(figure: &Figure) -> Row {
    let Figure { metric, value, unit, min, max, n, baseline, ratio, target, met, note, .. } =
        figure;
    let value = value.map_or_else(|| "-".to_owned(), |value| format!("{} {unit}", number(value)));
    let range = match (min, max) {
        (Some(min), Some(max)) if *n > 1 => format!("{} .. {} ({n})", number(*min), number(*max)),
        _ => String::new(),
    };
    let verdict = match met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None if target.is_some() => "not compared",
        None => "",
    };
    let verdict = match note {
        Some(note) if verdict.is_empty() => note.clone(),
        Some(note) => format!("{verdict}; {note}"),
        None => verdict.to_owned(),
    };
    [
        metric.clone(),
        value,
        range,
        baseline.as_ref().map_or_else(String::new, |baseline| {
            format!("{} {}", baseline.name, number(baseline.value))
        }),
        ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}")),
        target.clone().unwrap_or_default(),
        verdict,
    ]
}

/// Four digits that mean something, whatever the size.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Target;

    fn printed(form: Form) -> String {
        let mut out = Vec::new();
        let machine = "2026-11-29: a CPU, Linux 6, commit 1".to_owned();
        let mut report = Report::new("steer", form, &mut out).of_machine(machine);
        report.begin("rate", "on CPU 1").expect("memory takes everything");
        let own = [3.0, 1.0, 2.0];
        let figure = Figure::new("forwarding", "Mpps", &own)
            .against("testpmd", &own, &[10.0, 10.0, 10.0])
            .target(Target::RatioAtLeast(0.4));
        report.figure(figure).expect("memory takes everything");
        report.figure(Figure::missing("other", "it is absent")).expect("memory takes everything");
        report.end().expect("memory takes everything");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn every_line_of_json_has_every_key_and_a_missed_figure_says_so() {
        let text = printed(Form::Json);
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("an object a line");
            for key in
                ["bench", "case", "metric", "value", "unit", "min", "max", "n", "baseline", "ratio"]
            {
                assert!(line.get(key).is_some(), "{key} in {line}");
            }
        }
        let first: serde_json::Value =
            serde_json::from_str(text.lines().next().expect("two")).expect("an object");
        assert_eq!(first["value"], 2.0);
        assert_eq!(first["baseline"]["name"], "testpmd");
        assert_eq!(first["baseline"]["value"], 10.0);
        assert_eq!(first["met"], false);
        assert_eq!(first["target"], "ratio >= 0.4");
    }

    #[test]
    fn the_table_says_missed_aloud_and_why_something_is_missing() {
        let text = printed(Form::Text);
        assert!(text.contains("steer rate: on CPU 1"), "{text}");
        assert!(text.contains("MISSED"), "{text}");
        assert!(text.contains("it is absent"), "{text}");
    }

    #[test]
    fn a_section_of_a_page_says_how_it_was_printed_and_of_what_machine() {
        let text = printed(Form::Markdown);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("## steer rate"));
        assert_eq!(
            lines.nth(1),
            Some(
                "Printed by `calisto bench steer --case rate --markdown` on 2026-11-29: a CPU, \
                 Linux 6, commit 1."
            )
        );
        let table: Vec<&str> = lines.filter(|line| line.starts_with('|')).collect();
        assert_eq!(table[1], "|---|---|---|---|---|---|---|");
        let cells = "| forwarding | 2.00 Mpps | 1.00 .. 3.00 (3) | testpmd 10.00 | 0.200 |";
        assert!(table[2].starts_with(cells), "{text}");
        assert!(table[2].ends_with("| ratio \\>= 0.4 | MISSED |"), "{text}");
    }
}
