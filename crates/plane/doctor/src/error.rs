//! Why there is no report, as one sentence with what to do.

use std::fmt;

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no interface of a name that was asked for: a usage error.
    NoSuchNic(sys::SysError),
}

impl Error {
    /// Whether the caller asked for something that cannot be, as opposed to something that failed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoSuchNic(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchNic(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
