//! The page: what a paper claims and whether it is so, then every figure with all that it was made
//! of.

mod papers;
mod section;
mod sentences;
mod tornado;

use std::fmt::Write;

use crate::figure::Figure;
use crate::line::{Claim, Whose};
use crate::markup::Escaped;
use crate::merge::Report;
use crate::svg;

const STYLE: &str = include_str!("page.css");

/// How many claims hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// That are so here.
    pub hold: usize,
    /// That are not.
    pub do_not: usize,
    /// That are so in some runs and not in others.
    pub open: usize,
    /// Whose points are not there.
    pub not_known: usize,
}

impl Verdicts {
    /// Counts claims.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Self {
        let mut verdicts = Self::default();
        for claim in claims {
            match claim.holds {
                Some(true) => verdicts.hold += 1,
                Some(false) => verdicts.do_not += 1,
                None if claim.runs.is_some() => verdicts.open += 1,
                None => verdicts.not_known += 1,
            }
        }
        verdicts
    }

    /// All of them.
    #[must_use]
    pub fn all(self) -> usize {
        self.hold + self.do_not + self.open + self.not_known
    }
}

impl std::fmt::Display for Verdicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { hold, do_not, open, not_known } = self;
        match self.all() {
            0 => return f.write_str("no claims"),
            1 => f.write_str("1 claim: ")?,
            all => write!(f, "{all} claims: ")?,
        }
        let hold = if *hold == 1 { "1 holds".to_owned() } else { format!("{hold} hold") };
        let do_not =
            if *do_not == 1 { "1 does not".to_owned() } else { format!("{do_not} do not") };
        write!(f, "{hold} here, {do_not}")?;
        if *open > 0 {
            write!(f, ", {open} open")?;
        }
        if *not_known > 0 {
            write!(f, ", {not_known} not known")?;
        }
        Ok(())
    }
}

impl Report {
    /// What the papers claim, over all figures.
    #[must_use]
    pub fn verdicts(&self) -> Verdicts {
        Verdicts::of(self.figures().iter().flat_map(Figure::claims))
    }

    /// How many of the claims of one origin hold.
    #[must_use]
    pub fn verdicts_of(&self, whose: Whose) -> Verdicts {
        let claims = self.figures().iter().flat_map(Figure::claims);
        Verdicts::of(claims.filter(|claim| claim.whose == whose))
    }

    /// The whole page: HTML that needs nothing beside itself.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::new();
        page += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
        page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
        // Whatever a result file says, this page loads nothing and runs nothing.
        page += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";
        let plots = svg::STYLE;
        let _ = writeln!(page, "<title>Calisto: figures</title>\n<style>\n{STYLE}{plots}</style>");
        page += "</head>\n<body>\n<header>\n<h1>Calisto: figures</h1>\n";
        let figures = self.figures().len();
        let points: usize = self.figures().iter().map(|figure| figure.points().count()).sum();
        let many = if figures == 1 { "" } else { "s" };
        let _ =
            writeln!(page, "<p>{figures} figure{many}, {points} points, {}.</p>", self.verdicts());
        self.tallies(&mut page);
        page += "</header>\n<main>\n";
        self.contents(&mut page);
        self.write_sentences(&mut page);
        if let Some(against) = &self.against {
            against.write(&mut page);
        }
        self.claims(&mut page);
        papers::write(&mut page, self);
        for figure in self.figures() {
            section::write(&mut page, figure);
        }
        page += "</main>\n</body>\n</html>\n";
        page
    }

    /// Three tallies: what others say, and what is measured by ourselves against ourselves, is not
    /// one sum.
    fn tallies(&self, page: &mut String) {
        let tallies = Whose::ALL.map(|whose| (whose, self.verdicts_of(whose)));
        for (whose, verdicts) in tallies.into_iter().filter(|(_, verdicts)| verdicts.all() > 0) {
            let _ = writeln!(page, "<p>Of {}: {verdicts}.</p>", Escaped(whose.words()));
        }
    }

    fn contents(&self, page: &mut String) {
        *page += "<nav aria-label=\"Figures\">\n<h2>Figures</h2>\n<ol>\n";
        for figure in self.figures() {
            let head = figure.head();
            let (name, title) = (&head.figure, Escaped(&head.title));
            let mut remarks = Vec::new();
            let verdicts = Verdicts::of(figure.claims());
            if verdicts.all() > 0 {
                remarks.push(verdicts.to_string());
            }
            let coverage = figure.coverage();
            if !coverage.lacks.is_empty() {
                remarks.push(format!("{} of {} points", coverage.there, coverage.promised));
            }
            let _ = write!(page, "<li><a href=\"#{name}\">{title}</a>");
            if !remarks.is_empty() {
                let _ = write!(page, " <span class=\"quiet\">{}</span>", remarks.join("; "));
            }
            *page += "</li>\n";
        }
        if !self.papers.is_empty() {
            *page += "<li><a href=\"#Papers\">Paper by paper</a></li>\n";
        }
        *page += "</ol>\n</nav>\n";
    }

    fn claims(&self, page: &mut String) {
        let all = || {
            self.figures()
                .iter()
                .flat_map(|figure| figure.claims().iter().map(move |claim| (figure, claim)))
        };
        if all().next().is_none() {
            return;
        }
        *page += "<div class=\"summary\">\n<h2>What is claimed, and whether it is so here</h2>\n<div class=\"wide\"><table class=\"claims\">\n";
        *page += "<tr><th>Here it</th><th>Claim</th><th>Who says it</th><th>Figure</th></tr>\n";
        for (whose, wanted) in Whose::ALL
            .into_iter()
            .flat_map(|whose| [Some(true), Some(false), None].map(|wanted| (whose, wanted)))
        {
            let is_of = |claim: &Claim| claim.holds == wanted && claim.whose == whose;
            for (figure, claim) in all().filter(|(_, claim)| is_of(claim)) {
                let name = &figure.head().figure;
                let _ = writeln!(
                    page,
                    "<tr>{}<td>{}</td><td>{}: {}</td><td><a href=\"#{name}\">{name}</a></td></tr>",
                    section::verdict(claim),
                    Escaped(&claim.claim),
                    Escaped(claim.whose.words()),
                    Escaped(&claim.source),
                );
            }
        }
        *page += "</table></div>\n</div>\n";
    }
}

#[cfg(test)]
mod tests;
