//! `calisto report`: results as one page of plots.

use std::fs;
use std::path::{Path, PathBuf};

use base::printable;
use clap::Args;
use cli::failure::Failure;
use cli::output;
use cli::table::{Cell, Table};
use report::{
    CellChange, Claim, ClaimChange, Coverage, Differences, Error, Figure, Report as Results,
    Verdicts, Whose,
};
use serde::Serialize;

/// Of the JSON; a reader that knows another one should not guess.
const SCHEMA_VERSION: u32 = 1;

/// Where `calisto sim` leaves its results if nothing else is said.
const RESULTS: &str = "results";

/// Characters of a sentence with words out of a result file that are shown: room for the longest
/// text of one.
const SHOWN_MAX: usize = 12_000;

/// Make one page of plots, tables and claims out of results.
///
/// Results are the .jsonl files that `calisto sim` writes. Those of several machines, of the shards
/// of one sweep, and of live runs go into one folder: they are put together, and what contradicts
/// is refused. The page is a single file that needs nothing beside itself.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto sim --all && calisto report             every figure: report.html, from results/\n  \
    calisto report results/calisto-6.jsonl          one figure\n  \
    calisto report node-*/ -o all.html --svg plots  many machines; each plot as a picture and as CSV, too\n  \
    calisto report results --papers papers.md       paper by paper, as Markdown\n\n\
    Whether a claim holds by luck of the seeds is seen by seeds that have nothing in common:\n  \
    calisto sim --all --seed 1001 -o other && calisto report results --against other")]
pub(crate) struct Report {
    /// Result files, and folders of them.
    #[arg(value_name = "PATH", default_value = RESULTS)]
    paths: Vec<PathBuf>,
    /// Where the page goes.
    #[arg(short = 'o', long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Write each plot as a picture, too, and its points as CSV beside it, into this folder; made
    /// if it is not there.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Results of the same figures with other seeds: say which claims flip, and which cells of maps
    /// disagree. A file or a folder.
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Write what the papers say, with our numbers beside it, as Markdown, too: it is on the page.
    #[arg(long, value_name = "FILE.md")]
    papers: Option<PathBuf>,
}

/// What was made, for `-j`.
#[derive(Serialize)]
struct Made<'a> {
    schema_version: u32,
    page: &'a Path,
    figures: Vec<MadeFigure<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Against<'a>>,
}

/// A figure of it.
#[derive(Serialize)]
struct MadeFigure<'a> {
    figure: &'a str,
    svg: Option<PathBuf>,
    csv: Option<PathBuf>,
    points: usize,
    promised_points: usize,
    /// What is missing, in words.
    lacks: Vec<String>,
    claims_that_hold: usize,
    claims_that_do_not: usize,
    claims_open: usize,
    claims_not_known: usize,
}

/// What results with other seeds say differently, for `-j`.
#[derive(Serialize)]
struct Against<'a> {
    claims: usize,
    claims_that_flip: Vec<Change<'a>>,
    claims_open_in_one: Vec<Change<'a>>,
    cells: usize,
    cells_that_disagree: Vec<Change<'a>>,
    cells_undecided_in_one: Vec<Change<'a>>,
    figures_in_one_only: &'a [String],
}

/// A claim, or a cell, and what each of the two says of it.
#[derive(Serialize)]
struct Change<'a> {
    figure: &'a str,
    what: &'a str,
    here: &'a str,
    there: &'a str,
}

impl Report {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let Self { paths, output: page, svg, against, papers } = self;
        let mut report = read(paths)?;
        if let Some(other) = against {
            let other = read(std::slice::from_ref(other))?;
            report.set_against(Differences::between(&report, &other).map_err(unreadable)?);
        }
        report.set_papers(experiments::papers::beside(&report));
        write(page, &report.page())?;
        if let Some(path) = papers {
            write(path, &report.papers_markdown())?;
        }
        let mut made = Vec::new();
        for figure in report.figures() {
            let picture = svg.as_deref().map(|folder| write_picture(folder, figure)).transpose()?;
            made.push(MadeFigure::of(figure, picture));
        }
        let against = report.against();
        if json {
            return output::json(&Made {
                schema_version: SCHEMA_VERSION,
                page,
                figures: made,
                against: against.map(Against::of),
            });
        }
        let mut table = Table::new([
            "figure",
            "points",
            "promised",
            "claims",
            "hold",
            "do not",
            "open",
            "not known",
        ]);
        for figure in &made {
            table.row([
                figure.figure.into(),
                number(figure.points),
                number(figure.promised_points),
                number(figure.claims()),
                number(figure.claims_that_hold),
                number(figure.claims_that_do_not),
                number(figure.claims_open),
                number(figure.claims_not_known),
            ]);
        }
        let mut text = table.render();
        for figure in &made {
            for lack in &figure.lacks {
                let lack = printable(lack, SHOWN_MAX);
                text += &format!("{}: {lack}\n", figure.figure);
            }
        }
        text += &format!("{}: {}\n", page.display(), report.verdicts());
        for whose in Whose::ALL {
            text += &format!("of {}: {}\n", whose.words(), report.verdicts_of(whose));
        }
        for sentence in report.sentences() {
            text += &format!("{sentence}\n");
        }
        if let Some(folder) = svg {
            let (folder, count) = (folder.display(), made.len());
            text += &format!("{folder}: {count} pictures, and as many tables (CSV)\n");
        }
        if let Some(path) = papers {
            text += &format!("{}: paper by paper\n", path.display());
        }
        if let Some(against) = against {
            text += &differences(against);
        }
        output::text(&text)
    }
}

impl<'a> Against<'a> {
    fn of(all: &'a Differences) -> Self {
        let claims = |list: &'a [ClaimChange]| list.iter().map(Change::of_claim).collect();
        let cells = |list: &'a [CellChange]| list.iter().map(Change::of_cell).collect();
        Self {
            claims: all.claims,
            claims_that_flip: claims(&all.flips),
            claims_open_in_one: claims(&all.opens),
            cells: all.cells,
            cells_that_disagree: cells(&all.disagree),
            cells_undecided_in_one: cells(&all.undecided),
            figures_in_one_only: &all.lonely,
        }
    }
}

impl<'a> Change<'a> {
    fn of_claim(change: &'a ClaimChange) -> Self {
        let ClaimChange { figure, claim, first, other } = change;
        Self { figure, what: claim, here: first, there: other }
    }

    fn of_cell(change: &'a CellChange) -> Self {
        let CellChange { figure, at, first, other } = change;
        Self { figure, what: at, here: first, there: other }
    }
}

/// What differs, for people.
fn differences(all: &Differences) -> String {
    let against = Against::of(all);
    let mut text = format!("{all}\n");
    for (what, list) in [
        ("flips", &against.claims_that_flip),
        ("is open in one", &against.claims_open_in_one),
        ("disagrees", &against.cells_that_disagree),
        ("has a winner in one", &against.cells_undecided_in_one),
    ] {
        for Change { figure, what: of, here, there } in list {
            let line = format!("{figure}, {what}: {of}: here {here}, there {there}");
            text += &format!("  {}\n", printable(&line, SHOWN_MAX));
        }
    }
    text
}

impl<'a> MadeFigure<'a> {
    fn of(figure: &'a Figure, svg: Option<PathBuf>) -> Self {
        let csv = svg.as_ref().map(|path| path.with_extension("csv"));
        let Coverage { there, promised, lacks } = figure.coverage();
        let Verdicts { hold, do_not, open, not_known } = Verdicts::of(figure.claims());
        Self {
            figure: &figure.head().figure,
            svg,
            csv,
            points: there,
            promised_points: promised,
            lacks,
            claims_that_hold: hold,
            claims_that_do_not: do_not,
            claims_open: open,
            claims_not_known: not_known,
        }
    }

    fn claims(&self) -> usize {
        self.claims_that_hold + self.claims_that_do_not + self.claims_open + self.claims_not_known
    }
}

/// Results, with the claims judged that only all of them together can answer.
fn read(paths: &[PathBuf]) -> Result<Results, Failure> {
    let mut results = report::read(paths).map_err(unreadable)?;
    results.figures_mut().iter_mut().for_each(judge);
    Ok(results)
}

/// Answers the claims that every shard has left open for want of points: here they are together.
fn judge(figure: &mut Figure) {
    if figure.claims().iter().all(|claim| claim.holds.is_some()) {
        return;
    }
    let points: Vec<_> = figure.points().cloned().collect();
    // Nothing is known of the claims of a scenario that is not the program's own.
    let judged = experiments::judge(&figure.head().figure, &points).unwrap_or_default();
    let claims = figure.claims().iter().map(|claim| {
        let is_same =
            |known: &&Claim| (&known.claim, &known.source) == (&claim.claim, &claim.source);
        let known = judged.iter().find(is_same).filter(|_| claim.holds.is_none());
        known.unwrap_or(claim).clone()
    });
    figure.set_claims(claims.collect());
}

fn number(count: usize) -> Cell {
    (count as u64).into()
}

fn write_picture(folder: &Path, figure: &Figure) -> Result<PathBuf, Failure> {
    fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    // A figure's name is letters, digits and hyphens: nothing leads out of the folder.
    let path = folder.join(format!("{}.svg", figure.head().figure));
    write(&path, &figure.svg())?;
    write(&path.with_extension("csv"), &figure.csv())?;
    Ok(path)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    sys::whole_file::write(path, text).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

/// Who has no results yet is told how to get some.
fn unreadable(error: Error) -> Failure {
    // It names files, series and fields as somebody else has called them.
    let said = printable(&error.to_string(), SHOWN_MAX);
    match &error {
        Error::Empty { path } | Error::Read { path, .. } if !path.is_file() => {
            Failure::new(format!("{said}; `calisto sim --all` makes results in {RESULTS}/"))
        }
        _ => Failure::new(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> Report {
        let (paths, output) = (Vec::new(), PathBuf::new());
        Report { paths, output, svg: None, against: None, papers: None }
    }

    #[test]
    fn who_has_no_results_is_told_how_to_make_some() {
        let report =
            Report { paths: vec!["/nowhere".into()], output: "/dev/null".into(), ..bare() };
        let failure = report.run(false).expect_err("there is no such folder").to_string();
        assert!(failure.starts_with("cannot read /nowhere: "), "{failure}");
        assert!(failure.contains("calisto sim --all"), "{failure}");
    }
}
