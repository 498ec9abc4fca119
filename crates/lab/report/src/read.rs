//! Result files: folders and files of lines, as they come.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, SourceLine};
use crate::line::Line;
use crate::merge::{Merger, Report};

/// Bytes of a line: the longest figure with all its prose is far under it.
const LINE_MAX: u64 = 1 << 20;
/// Files of a folder.
const FILES_MAX: usize = 10_000;
/// How a result file's name ends.
const ENDING: &str = "jsonl";

/// Reads result files, and every `.jsonl` file of the folders among `paths`, and puts them
/// together.
///
/// # Errors
/// A file cannot be read; a line is no [`Line`] or says what cannot be; two lines cannot both be
/// right; there is no line.
pub fn read(paths: &[PathBuf]) -> Result<Report, Error> {
    let mut merger = Merger::default();
    for path in paths {
        let files = files(path)?;
        let mut lines = 0;
        for file in &files {
            lines += read_file(file, &mut merger)?;
        }
        if lines == 0 {
            return Err(Error::Empty { path: path.clone() });
        }
    }
    merger.finish()
}

/// The files that `path` means, by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let cannot = |error| Error::Read { path: path.to_owned(), error };
    if !fs::metadata(path).map_err(cannot)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(cannot)? {
        let file = entry.map_err(cannot)?.path();
        // A pipe of that name would have us wait for ever.
        if file.extension().is_some_and(|ending| ending == ENDING) && file.is_file() {
            files.push(file);
        }
        if files.len() > FILES_MAX {
            let what = format!("{} has more than {FILES_MAX} .{ENDING} files", path.display());
            return Err(Error::TooMuch { what });
        }
    }
    files.sort();
    Ok(files)
}

/// How many lines there were.
fn read_file(path: &Path, merger: &mut Merger) -> Result<usize, Error> {
    let cannot = |error| Error::Read { path: path.to_owned(), error };
    let mut input = BufReader::new(File::open(path).map_err(cannot)?);
    let file: Arc<Path> = path.into();
    let mut bytes = Vec::new();
    let mut count = 0;
    for number in 1.. {
        bytes.clear();
        if next_line(&mut input, &mut bytes).map_err(cannot)? == 0 {
            break;
        }
        let place = SourceLine { file: Some(Arc::clone(&file)), line: number };
        if bytes.len() as u64 > LINE_MAX {
            let wrong = format!("the line is longer than {LINE_MAX} bytes");
            return Err(Error::Line { place, wrong });
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let line: Line = serde_json::from_slice(&bytes)
            .map_err(|error| Error::Line { place: place.clone(), wrong: in_line(&error) })?;
        merger.add(place, line)?;
        count += 1;
    }
    Ok(count)
}

/// Reads one line, and of one that is too long only so much that this can be seen.
fn next_line(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<usize> {
    input.take(LINE_MAX + 1).read_until(b'\n', bytes)
}

/// What serde says, without its "line 1": it knows nothing of the file.
fn in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    let text = &text[..end];
    if error.is_data() { text.to_owned() } else { format!("no JSON: {text}") }
}

#[cfg(test)]
mod tests;
