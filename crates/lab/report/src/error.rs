//! Why results cannot be read, or cannot be put together.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// Its file; nothing for a line that never was in one.
    pub file: Option<Arc<Path>>,
    /// Its number, from 1.
    pub line: usize,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}", file.display(), self.line),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// Why results cannot be read, or cannot be put together.
#[derive(Debug)]
pub enum Error {
    /// A file or folder.
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is no line at all.
    Empty {
        /// What was looked at.
        path: PathBuf,
    },
    /// More than a page can hold.
    TooMuch {
        /// Of what, and how much is allowed.
        what: String,
    },
    /// A line that cannot be used.
    Line {
        /// Which.
        place: SourceLine,
        /// What is wrong with it.
        wrong: String,
    },
    /// Two lines that cannot both be right.
    Conflict {
        /// On what they differ.
        what: String,
        /// One of them.
        first: SourceLine,
        /// The other one.
        second: SourceLine,
    },
    /// Two reports that are to be compared have a seed in common.
    SameSeed {
        /// In which figure.
        figure: String,
        /// Which seed.
        seed: u64,
    },
    /// Two reports that are to be compared are not of the same figure.
    Unlike {
        /// Which.
        figure: String,
        /// In what they differ.
        field: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "cannot read {}: {error}", path.display()),
            Self::Empty { path } => {
                write!(f, "there are no results in {}: no .jsonl file with a line", path.display())
            }
            Self::TooMuch { what } => write!(f, "too much for one page: {what}"),
            Self::Line { place, wrong } => write!(f, "{place}: {wrong}"),
            Self::Conflict { what, first, second } => {
                write!(
                    f,
                    "{what}: {first} and {second} differ; remove the file that is out of date"
                )
            }
            Self::SameSeed { figure, seed } => write!(
                f,
                "figure {figure} has seed {seed} in both: runs with the same seed say nothing about \
                 each other; run one of them with another `--seed`"
            ),
            Self::Unlike { figure, field } => write!(
                f,
                "the two are not of the same figure {figure}: its {field} differs; run both with \
                 the same program and scenario"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } => Some(error),
            _ => None,
        }
    }
}
