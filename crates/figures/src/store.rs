//! Result files: written whole or not at all, and shards of one put together.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use report::{Line, PointLine};

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

/// Writes lines to `folder`, which is made if need be: beside their place first, so that nobody ever reads
/// half of them.
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

/// The lines of the whole from those of its parts, as if it had been run at once.
///
/// # Errors
/// What is missing, or does not belong together.
pub fn merge(scenario: &Scenario, command: &str, parts: &[Vec<Line>]) -> Result<Vec<Line>, String> {
    let mut seed = None;
    let mut points: Vec<PointLine> = Vec::new();
    for line in parts.iter().flatten() {
        match line {
            Line::Figure(figure) if figure.figure != scenario.name() => {
                return Err(format!("one part is of the figure {}", figure.figure));
            }
            Line::Figure(figure) => {
                if seed.replace(figure.seed).is_some_and(|seed| seed != figure.seed) {
                    return Err("the parts were run with different seeds".to_owned());
                }
            }
            Line::Point(point) if !points.contains(point) => points.push(point.clone()),
            Line::Point(_) | Line::Claim(_) => {}
        }
    }
    let seed = seed.ok_or("there is nothing to merge")?;
    points.retain(|point| scenario.series.iter().any(|series| series.name == point.series));
    sort(scenario, &mut points);
    Ok(lines::all(scenario, command, seed, points))
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

/// Reads a result file.
///
/// # Errors
/// It cannot be read, or a line is none of ours: which one.
pub fn read(path: &Path) -> io::Result<Vec<Line>> {
    let text = fs::read_to_string(path)?;
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {error}", number + 1))
        })
    };
    text.lines().enumerate().map(line).collect()
}
