//! Why a load cannot be generated, as one sentence with what to do.

use std::fmt;

/// Why a load cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A setting, or two together, make no sense: a usage error.
    Setting(String),
    /// The kernel refuses; the sentence is its own.
    Sys(sys::SysError),
    /// The port cannot be opened; the sentence is its own.
    Port(port::OpenError),
    /// Something else that the sentence names.
    Failed(String),
}

impl Error {
    /// Whether the caller asked for something that cannot be, as opposed to something that failed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Setting(_))
    }

    pub(crate) fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::Failed(format!("cannot {doing}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(sentence) | Self::Failed(sentence) => f.write_str(sentence),
            Self::Sys(error) => error.fmt(f),
            Self::Port(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<sys::SysError> for Error {
    fn from(error: sys::SysError) -> Self {
        Self::Sys(error)
    }
}

impl From<port::OpenError> for Error {
    fn from(error: port::OpenError) -> Self {
        Self::Port(error)
    }
}
