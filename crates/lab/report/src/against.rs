//! Two reports of the same figures with different seeds: what one says and the other does not.

use std::fmt::Write;

use crate::differences::{CellChange, ClaimChange, Differences};
use crate::error::Error;
use crate::figure::Figure;
use crate::line::{Claim, FigureLine, Kind, PointLine};
use crate::markup::Escaped;
use crate::merge::{Report, difference};

/// What a map's cell says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell<'a> {
    Won(&'a str),
    Tie,
    Saturated,
}

impl Differences {
    /// Compares two reports figure by figure.
    ///
    /// # Errors
    /// A figure has the same seed in both, so that one run would be counted twice; or the two are
    /// not of the same figure.
    pub fn between(first: &Report, other: &Report) -> Result<Self, Error> {
        let mut all = Self::default();
        let named = |report: &'_ Report, name: &str| {
            report.figures().iter().position(|figure| figure.head().figure == name)
        };
        for figure in first.figures() {
            match named(other, &figure.head().figure) {
                Some(number) => all.figure(figure, &other.figures()[number])?,
                None => all.lonely.push(figure.head().figure.clone()),
            }
        }
        let alone = other.figures().iter().map(|figure| &figure.head().figure);
        all.lonely.extend(alone.filter(|name| named(first, name).is_none()).cloned());
        Ok(all)
    }

    fn figure(&mut self, first: &Figure, other: &Figure) -> Result<(), Error> {
        let (head, theirs) = (first.head(), other.head());
        let figure = head.figure.clone();
        if head.seed == theirs.seed {
            return Err(Error::SameSeed { figure, seed: head.seed });
        }
        let alike = FigureLine { seed: head.seed, ..theirs.clone() };
        if let Some(field) = difference(head, &alike) {
            return Err(Error::Unlike { figure, field });
        }
        for claim in first.claims() {
            let is_same = |one: &&Claim| (&one.claim, &one.source) == (&claim.claim, &claim.source);
            let Some(theirs) = other.claims().iter().find(is_same) else { continue };
            self.claim(claim, theirs);
        }
        if head.kind == Kind::Map {
            self.map(first, other);
        }
        Ok(())
    }

    fn claim(&mut self, first: &Claim, other: &Claim) {
        let is_known = |claim: &Claim| claim.holds.is_some() || claim.runs.is_some();
        if !is_known(first) || !is_known(other) {
            return;
        }
        self.claims += 1;
        if first.holds == other.holds {
            return;
        }
        let list = match (first.holds, other.holds) {
            (Some(_), Some(_)) => &mut self.flips,
            _ => &mut self.opens,
        };
        list.push(ClaimChange {
            figure: first.figure.clone(),
            claim: first.claim.clone(),
            first: verdict(first),
            other: verdict(other),
        });
    }

    fn map(&mut self, first: &Figure, other: &Figure) {
        for point in first.points() {
            let is_same =
                |one: &&PointLine| (&one.panel, one.x, one.y) == (&point.panel, point.x, point.y);
            let Some(theirs) = other.points().find(is_same) else { continue };
            self.cells += 1;
            let (own, their) = (cell(point), cell(theirs));
            if own == their {
                continue;
            }
            let list = match (own, their) {
                (Cell::Tie, Cell::Won(_)) | (Cell::Won(_), Cell::Tie) => &mut self.undecided,
                _ => &mut self.disagree,
            };
            let panel =
                if point.panel.is_empty() { String::new() } else { format!("{}: ", point.panel) };
            let head = first.head();
            list.push(CellChange {
                figure: head.figure.clone(),
                at: format!("{panel}{} {}, {} {}", head.x.label, point.x, head.y.label, point.y),
                first: winner(own),
                other: winner(their),
            });
        }
    }

    /// Writes it as a part of the page.
    pub(crate) fn write(&self, page: &mut String) {
        *page += "<div class=\"summary\" id=\"Against\">\n<h2>Against other seeds</h2>\n";
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<p>{}</p>", Escaped(&self.to_string()));
        let claims = [("It flips", &self.flips), ("It is open in one", &self.opens)];
        if claims.iter().any(|(_, list)| !list.is_empty()) {
            *page += "<div class=\"wide\"><table class=\"against\">\n<tr><th></th><th>Claim</th><th>Here it</th><th>There it</th></tr>\n";
            for (what, change) in
                claims.iter().flat_map(|(what, list)| list.iter().map(move |one| (what, one)))
            {
                let ClaimChange { figure, claim, first, other } = change;
                let (claim, first, other) = (Escaped(claim), Escaped(first), Escaped(other));
                let _ = writeln!(
                    page,
                    "<tr><td>{what}</td><td>{claim} (<a href=\"#{figure}\">{figure}</a>)</td><td>{first}</td><td>{other}</td></tr>",
                );
            }
            *page += "</table></div>\n";
        }
        let cells = [("They disagree", &self.disagree), ("One is a tie", &self.undecided)];
        if cells.iter().any(|(_, list)| !list.is_empty()) {
            *page += "<div class=\"wide\"><table class=\"against\">\n<tr><th></th><th>Cell</th><th>Here</th><th>There</th></tr>\n";
            for (what, change) in
                cells.iter().flat_map(|(what, list)| list.iter().map(move |one| (what, one)))
            {
                let CellChange { figure, at, first, other } = change;
                let (at, first, other) = (Escaped(at), Escaped(first), Escaped(other));
                let _ = writeln!(
                    page,
                    "<tr><td>{what}</td><td><a href=\"#{figure}\">{figure}</a>: {at}</td><td>{first}</td><td>{other}</td></tr>",
                );
            }
            *page += "</table></div>\n";
        }
        *page += "</div>\n";
    }
}

fn verdict(claim: &Claim) -> String {
    let word = match claim.holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "is open",
    };
    let runs = claim.runs.map_or(String::new(), |(holds, of)| format!(" in {holds} of {of} runs"));
    match claim.holds {
        Some(false) if claim.runs.is_some() => format!("{word}: it does{runs}"),
        _ => format!("{word}{runs}"),
    }
}

fn cell(point: &PointLine) -> Cell<'_> {
    match point {
        PointLine { saturated: true, .. } => Cell::Saturated,
        PointLine { tie: true, .. } => Cell::Tie,
        _ => Cell::Won(&point.series),
    }
}

fn winner(cell: Cell<'_>) -> String {
    match cell {
        Cell::Won(series) => series.to_owned(),
        Cell::Tie => "a tie".to_owned(),
        Cell::Saturated => "saturated".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;
    use crate::sample;

    /// The same lines with another seed.
    fn of(lines: Vec<Line>, seed: u64) -> Report {
        let seeded = lines.into_iter().map(|line| match line {
            Line::Figure(head) => Line::Figure(FigureLine { seed, ..head }),
            other => other,
        });
        Report::of(seeded).expect("the lines are right")
    }

    /// Whether a claim holds, and in how many runs of how many.
    type Said = (Option<bool>, Option<(u32, u32)>);

    /// The sample with these verdicts instead of its own.
    fn with_claims(verdicts: &[Said], seed: u64) -> Report {
        let mut lines = sample::lines();
        lines.retain(|line| !matches!(line, Line::Claim(_)));
        let claims = verdicts.iter().enumerate().map(|(number, (holds, runs))| {
            let claim = format!("claim {number}");
            Line::Claim(Claim { claim, runs: *runs, ..sample::claim(*holds) })
        });
        lines.extend(claims);
        of(lines, seed)
    }

    #[test]
    fn a_claim_that_holds_with_some_seeds_and_not_with_others_is_told_from_one_that_opens() {
        let first = [
            (Some(true), Some((10, 10))),
            (Some(true), Some((9, 10))),
            (Some(false), Some((0, 10))),
            (None, Some((5, 10))),
            (None, None),
        ];
        let other = [
            (Some(true), Some((9, 10))),
            (Some(false), Some((1, 10))),
            (None, Some((3, 10))),
            (None, Some((6, 10))),
            (Some(true), Some((10, 10))),
        ];
        let found = Differences::between(&with_claims(&first, 1), &with_claims(&other, 2));
        let found = found.expect("their seeds differ");
        assert_eq!((found.claims, found.flips.len(), found.opens.len()), (4, 1, 1));
        let ClaimChange { claim, first, other, .. } = &found.flips[0];
        assert_eq!(claim, "claim 1");
        assert_eq!(
            (&**first, &**other),
            ("holds in 9 of 10 runs", "does not hold: it does in 1 of 10 runs")
        );
        assert_eq!(found.opens[0].claim, "claim 2");
        assert!(found.to_string().starts_with("Of 4 claims 1 flip, and 1 are open"), "{found}");
    }

    #[test]
    fn a_cell_that_another_series_wins_disagrees_and_a_tie_is_only_undecided() {
        let mut lines = sample::map();
        let first = of(lines.clone(), 1);
        if let Line::Point(point) = &mut lines[1] {
            "two".clone_into(&mut point.series);
        }
        if let Line::Point(point) = &mut lines[2] {
            point.tie = true;
        }
        if let Line::Point(point) = &mut lines[4] {
            point.saturated = false;
        }
        let found = Differences::between(&first, &of(lines, 2)).expect("their seeds differ");
        assert_eq!(found.cells, 4);
        let told: Vec<_> =
            found.disagree.iter().map(|one| (&*one.first, &*one.other, &*one.at)).collect();
        assert_eq!(
            told,
            [
                ("one", "two", "Offered load 0.5, Skew 0"),
                ("saturated", "two", "Offered load 0.9, Skew 1.2")
            ]
        );
        assert_eq!(found.undecided.len(), 1);
        assert_eq!(found.undecided[0].other, "a tie");
    }

    #[test]
    fn one_set_of_seeds_is_not_compared_with_itself_nor_with_another_figure() {
        let one = of(sample::lines(), 1);
        let refused = Differences::between(&one, &of(sample::lines(), 1)).expect_err("one seed");
        assert!(refused.to_string().contains("seed 1 in both"), "{refused}");
        let mut lines = sample::lines();
        if let Line::Figure(head) = &mut lines[0] {
            "Something else".clone_into(&mut head.title);
        }
        let refused = Differences::between(&one, &of(lines, 2)).expect_err("another text");
        assert!(refused.to_string().contains("title"), "{refused}");
    }

    #[test]
    fn the_page_lists_what_differs() {
        let (first, other) = ([(Some(true), Some((10, 10)))], [(Some(false), Some((0, 10)))]);
        let mut first = with_claims(&first, 1);
        let found = Differences::between(&first, &with_claims(&other, 2)).expect("two seeds");
        first.set_against(found);
        let page = first.page();
        assert!(page.contains("<h2>Against other seeds</h2>"), "{page}");
        assert!(page.contains("<td>It flips</td><td>claim 0"), "{page}");
    }
}
