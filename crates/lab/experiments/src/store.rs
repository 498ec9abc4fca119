//! Result files: written whole or not at all, and shards of one put together.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use report::{FigureLine, Line, PointLine};

use crate::lines;
use crate::shard::Shard;
use crate::sweep::Scenario;

/// The file of a figure's results, or of a part of them.
pub fn file_name(figure: &str, shard: Shard) -> String {
    format!("{figure}{}.jsonl", shard.suffix())
}

/// Lines as text.
///
/// # Panics
/// Never: lines have nothing that JSON cannot hold.
pub fn to_text(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text += &serde_json::to_string(line).expect("a line is plain names, numbers and texts");
        text.push('\n');
    }
    text
}

/// Writes lines to `folder`, which is made if need be: beside their place first, so that nobody
/// ever reads half of them.
///
/// # Errors
/// The file cannot be written.
pub fn write(folder: &Path, name: &str, lines: &[Line]) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let (path, beside) =
        (folder.join(name), folder.join(format!(".{name}.{}", std::process::id())));
    let written = File::create(&beside)
        .and_then(|mut file| file.write_all(to_text(lines).as_bytes()))
        .and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // What is left of it is of no use, and the first error says why.
        let _ = fs::remove_file(&beside);
    }
    written.map(|()| path)
}

/// The lines of the whole from the files of its parts, as if it had been run at once.
///
/// # Errors
/// What is missing, or does not belong together: parts of another figure, of another text of it, or
/// of runs with another seed or other options; a point that two parts have differently.
pub fn merge(scenario: &Scenario, parts: &[PathBuf]) -> Result<Vec<Line>, String> {
    let command = command(scenario, parts)?;
    let report = report::read(parts).map_err(|error| error.to_string())?;
    let [figure] = report.figures() else { return Err("there is nothing to merge".to_owned()) };
    let own = |point: &&PointLine| scenario.series.iter().any(|one| one.name == point.series);
    let mut points: Vec<PointLine> = figure.points().filter(own).cloned().collect();
    sort(scenario, &mut points);
    let seed = figure.head().seed;
    let lines = lines::all(scenario, &command, seed, points);
    let Some(Line::Figure(head)) = lines.first() else {
        return Err("there is nothing to merge".to_owned());
    };
    if (FigureLine { command: String::new(), ..head.clone() })
        != (FigureLine { command: String::new(), ..figure.head().clone() })
    {
        return Err("the parts are of another text of this scenario: run them again".to_owned());
    }
    for series in head.series.iter().take(scenario.series.len()) {
        for (number, panel) in head.panels.iter().enumerate() {
            let (there, promised) = (figure.count(number, series), series.points);
            if there != promised {
                let panel =
                    if panel.is_empty() { String::new() } else { format!(", panel {panel}") };
                return Err(format!(
                    "{}{panel} has {there} of {promised} points: parts are missing",
                    series.label
                ));
            }
        }
    }
    Ok(lines)
}

/// The command that repeats the whole: that of each part, but for which part it is.
fn command(scenario: &Scenario, parts: &[PathBuf]) -> Result<String, String> {
    let mut common: Option<(String, &Path)> = None;
    for path in parts {
        let report = report::read(std::slice::from_ref(path)).map_err(|error| error.to_string())?;
        for figure in report.figures() {
            let name = &figure.head().figure;
            if name != scenario.name() {
                return Err(format!("{} is of the figure {name}", path.display()));
            }
            for command in figure.commands() {
                let command = command.rsplit_once(" --shard ").map_or(&**command, |(all, _)| all);
                match &common {
                    None => common = Some((command.to_owned(), path.as_path())),
                    Some((known, _)) if known == command => {}
                    Some((known, first)) => {
                        return Err(format!(
                            "{} is of {known:?}, and {} of {command:?}: parts belong together when they \
                             differ in nothing but --shard",
                            first.display(),
                            path.display()
                        ));
                    }
                }
            }
        }
    }
    common.map(|(command, _)| command).ok_or_else(|| "there is nothing to merge".to_owned())
}

/// In the order of the jobs.
fn sort(scenario: &Scenario, points: &mut [PointLine]) {
    let panel = |point: &PointLine| scenario.panels.iter().position(|panel| *panel == point.panel);
    let series = |point: &PointLine| {
        let at = scenario.series.iter().position(|series| series.name == point.series);
        if scenario.is_map() { None } else { at }
    };
    points.sort_by(|one, other| {
        (panel(one), series(one))
            .cmp(&(panel(other), series(other)))
            .then_with(|| match scenario.is_map() {
                true => one.y.total_cmp(&other.y),
                false => std::cmp::Ordering::Equal,
            })
            .then_with(|| one.x.total_cmp(&other.x))
    });
}
