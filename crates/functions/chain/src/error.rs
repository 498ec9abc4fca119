//! Why a chain cannot be run, as one sentence with what to do.

use std::fmt;

use calisto_nf::RibError;
use calisto_slice::SliceError;
use sys::SysError;

use crate::file::FileError;

/// Why a chain cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// Something is wrong in a file.
    File(FileError),
    /// A file cannot be read.
    Unreadable {
        /// Which one.
        path: String,
        /// Why, in the kernel's words, and what to do.
        why: String,
    },
    /// The kernel refuses.
    Sys(SysError),
    /// A slice cannot be opened.
    Slice(SliceError),
    /// A slice names what this machine does not have.
    Missing {
        /// Its number, from 0.
        slice: usize,
        /// What there is not, and what to do.
        why: String,
    },
    /// The routes do not fit into the tables.
    Tables {
        /// Where they come from.
        routes: String,
        /// Which table is full.
        error: RibError,
    },
    /// A function cannot be made of its settings.
    Function {
        /// Its kind.
        kind: &'static str,
        /// Why not.
        why: String,
    },
    /// A file cannot be put in force while the chain runs: why, and what to do.
    Reload(String),
    /// The socket for figures cannot be made.
    Socket {
        /// Its path.
        path: String,
        /// Why not, and what to do.
        why: String,
    },
    /// A thread of the chain has ended by itself.
    Ended {
        /// The slice that was its.
        slice: String,
        /// What is known of it.
        why: String,
    },
}

impl From<FileError> for ChainError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<SysError> for ChainError {
    fn from(error: SysError) -> Self {
        Self::Sys(error)
    }
}

impl From<SliceError> for ChainError {
    fn from(error: SliceError) -> Self {
        Self::Slice(error)
    }
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Unreadable { path, why } => write!(f, "{path} cannot be read: {why}"),
            Self::Sys(error) => error.fmt(f),
            Self::Slice(error) => error.fmt(f),
            Self::Missing { slice, why } => write!(f, "slice {slice}: {why}"),
            Self::Tables { routes, error } => {
                write!(f, "the routes of {routes} do not fit: {error}")
            }
            Self::Function { kind, why } => write!(f, "the function {kind:?}: {why}"),
            Self::Reload(why) => f.write_str(why),
            Self::Socket { path, why } => write!(f, "the socket {path}: {why}"),
            Self::Ended { slice, why } => write!(f, "slice {slice} has ended: {why}"),
        }
    }
}

impl std::error::Error for ChainError {}
