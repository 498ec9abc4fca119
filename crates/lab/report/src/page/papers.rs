//! Paper by paper on the page.

use std::fmt::Write;

use crate::markup::Escaped;
use crate::merge::Report;
use crate::papers::PaperRow;

/// Writes the tables, one a paper.
pub(super) fn write(page: &mut String, report: &Report) {
    if report.papers().is_empty() {
        return;
    }
    *page += "<div class=\"summary\" id=\"Papers\">\n<h2>Paper by paper</h2>\n";
    for paper in report.papers() {
        let _ = writeln!(page, "<h3>{}</h3>", Escaped(&paper.title));
        *page += "<div class=\"wide\"><table class=\"papers\">\n";
        *page += "<tr><th>There</th><th>What it says</th><th>Ours</th><th>What that is</th></tr>\n";
        for row in &paper.rows {
            write_row(page, report, row);
        }
        *page += "</table></div>\n";
    }
    *page += "</div>\n";
}

fn write_row(page: &mut String, report: &Report, row: &PaperRow) {
    let PaperRow { there, says, here, figures, ours } = row;
    let _ = write!(page, "<tr><td>{}</td><td>{}</td><td>", Escaped(there), Escaped(says));
    for (number, one) in ours.iter().enumerate() {
        let line = if number == 0 { "" } else { "<br/>" };
        let class = if one.number.is_some() { "ours" } else { "quiet" };
        let (what, shown) = (Escaped(&one.what), Escaped(one.shown()));
        let _ = write!(page, "{line}{what}: <span class=\"{class}\">{shown}</span>");
    }
    let _ = write!(page, "</td><td>{}", Escaped(here));
    for name in figures {
        let name = Escaped(name);
        match report.verdicts_in(name.0) {
            Some(verdicts) if verdicts.all() > 0 => {
                let _ = write!(
                    page,
                    "<br/><a href=\"#{name}\">{name}</a> <span class=\"quiet\">{verdicts}</span>"
                );
            }
            Some(_) => {
                let _ = write!(page, "<br/><a href=\"#{name}\">{name}</a>");
            }
            None => {
                let _ = write!(page, "<br/>{name} <span class=\"quiet\">not run</span>");
            }
        }
    }
    *page += "</td></tr>\n";
}
