//! The whole page in five sentences, which the project's README has too.

use std::fmt::Write;

use crate::line::Whose;
use crate::markup::Escaped;
use crate::merge::Report;
use crate::page::Verdicts;

impl Report {
    /// What all figures together say: the claims of the five papers, those of others, by which test
    /// they hold, whether other seeds say the same, and how much of the papers is here.
    #[must_use]
    pub fn sentences(&self) -> [String; 5] {
        let Verdicts { hold, do_not, open, not_known } = self.verdicts_of(Whose::Seed);
        let seeds = hold + do_not + open + not_known;
        let stats = |whose| {
            let verdicts = self.verdicts_of(whose);
            let Verdicts { hold, do_not, open, not_known } = verdicts;
            (
                verdicts.all(),
                format!("{hold} hold, {do_not} do not and {} are open", open + not_known),
            )
        };
        let (others, of_others) = stats(Whose::Paper);
        let (own, of_own) = stats(Whose::Own);
        let rows = self.papers.iter().flat_map(|paper| &paper.rows);
        let (all, with_ours) = rows.fold((0, 0), |(all, ours), row| {
            let is_run = row.ours.iter().any(|one| one.number.is_some());
            (all + 1, ours + usize::from(is_run || !row.figures.is_empty() && row.ours.is_empty()))
        });
        let against = match &self.against {
            None => {
                "No other seeds were run beside these: which claims they would turn is not known."
                    .to_owned()
            }
            Some(other) => format!(
                "Of {} claims that were run with ten other seeds, too, {} flip and {} are open with one \
                 set only; of {} cells of maps {} have another winner, and {} have one with one set only.",
                other.claims,
                other.flips.len(),
                other.opens.len(),
                other.cells,
                other.disagree.len(),
                other.undecided.len()
            ),
        };
        [
            format!(
                "Of {seeds} claims of the five papers {hold} hold in the simulator, {do_not} do not and \
                 {} are open.",
                open + not_known
            ),
            format!(
                "Of {others} claims of other papers {of_others}; of {own} of this project's own {of_own}."
            ),
            "A claim holds when it does in nine of ten runs or more, each with a seed of its own (exact \
             binomial test, 95 %)."
                .to_owned(),
            against,
            format!(
                "Of {all} figures, tables and numbers of these papers {with_ours} have a simulation of \
                 ours beside them, and the others say what there is instead, or why there is nothing."
            ),
        ]
    }

    /// Writes them at the top of the page.
    pub(super) fn write_sentences(&self, page: &mut String) {
        *page += "<h2>In five sentences</h2>\n<ul>\n";
        for sentence in self.sentences() {
            let _ = writeln!(page, "<li>{}</li>", Escaped(&sentence));
        }
        *page += "</ul>\n";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::Differences;
    use crate::sample;

    /// With every number as the same mark, and no breaks of lines.
    fn without_numbers(text: &str) -> String {
        let words = text.split_whitespace().map(|word| {
            let bare = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
            if bare.len() < word.len() { format!("#{bare}") } else { word.to_owned() }
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_readme_says_of_the_evidence_what_the_page_says() {
        let mut report = Report::of(sample::lines()).expect("the lines are right");
        report.set_against(Differences::default());
        let readme = without_numbers(include_str!("../../../../../README.md"));
        for sentence in report.sentences() {
            let sentence = without_numbers(&sentence);
            assert!(readme.contains(&sentence), "README.md lacks: {sentence}");
        }
    }

    #[test]
    fn what_was_not_run_twice_is_said_and_the_page_has_all_five() {
        let report = Report::of(sample::lines()).expect("the lines are right");
        let sentences = report.sentences();
        assert!(sentences[3].contains("No other seeds"), "{sentences:?}");
        assert_eq!(
            sentences[1].split(';').next(),
            Some("Of 2 claims of other papers 1 hold, 1 do not and 0 are open")
        );
        let page = report.page();
        for sentence in &sentences {
            assert!(page.contains(&Escaped(sentence).to_string()), "{sentence}: {page}");
        }
    }
}
