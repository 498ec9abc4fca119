//! The table of what papers say: for the page, and as Markdown.

use std::fmt::Write;

use crate::line::Whose;
use crate::merge::Report;
use crate::page::Verdicts;
use crate::papers::Paper;

impl Report {
    /// Puts what papers say onto the page.
    pub fn set_papers(&mut self, papers: Vec<Paper>) {
        self.papers = papers;
    }

    /// What papers say, with what is here.
    #[must_use]
    pub fn papers(&self) -> &[Paper] {
        &self.papers
    }

    /// Of a figure that was run: how many of the five papers' claims hold in it.
    pub(crate) fn verdicts_in(&self, figure: &str) -> Option<Verdicts> {
        let found = self.figures().iter().find(|one| one.head().figure == figure)?;
        let claims = found.claims().iter().filter(|claim| claim.whose == Whose::Seed);
        Some(Verdicts::of(claims))
    }

    /// The table as Markdown, a section for each paper.
    #[must_use]
    pub fn papers_markdown(&self) -> String {
        let mut text = String::new();
        for paper in &self.papers {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "## {}\n", paper.title);
            text += "| there | what it says | ours | here |\n|---|---|---|---|\n";
            for row in &paper.rows {
                let ours: Vec<String> =
                    row.ours.iter().map(|one| format!("{}: {}", one.what, one.shown())).collect();
                let figures = row.figures.iter().map(|name| match self.verdicts_in(name) {
                    Some(verdicts) if verdicts.all() > 0 => format!("{name} ({verdicts})"),
                    _ => name.clone(),
                });
                let figures: Vec<String> = figures.collect();
                let about = match figures.len() {
                    0 => String::new(),
                    1 => format!("; figure {}", figures[0]),
                    _ => format!("; figures {}", figures.join(", ")),
                };
                let cells = [
                    row.there.clone(),
                    row.says.clone(),
                    if ours.is_empty() { "–".to_owned() } else { ours.join("; ") },
                    format!("{}{about}", row.here),
                ];
                let cells = cells.map(|cell| cell.replace('|', "\\|"));
                let _ = writeln!(text, "| {} |", cells.join(" | "));
            }
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}
