//! Why a capture cannot be replayed, as one sentence with what to do.

use std::fmt;

/// Why a capture cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A setting makes no sense: a usage error.
    Setting(String),
    /// The file cannot be opened, or nothing of it can be played.
    File {
        /// Its name.
        path: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Something else that the sentence names.
    Failed(String),
}

impl Error {
    /// Whether the caller asked for something that cannot be, as opposed to something that failed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Setting(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(sentence) | Self::Failed(sentence) => f.write_str(sentence),
            Self::File { path, reason } => write!(f, "{path}: {reason}"),
        }
    }
}

impl std::error::Error for Error {}
