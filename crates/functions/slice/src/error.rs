//! Why a slice cannot be had, as one sentence with what to do.

use std::fmt;

use port::{FilterError, OpenError};
use sys::SysError;

/// Why a slice cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceError {
    /// A slice without ports.
    NoPorts {
        /// Its name.
        slice: String,
    },
    /// More ports than one thread can look after.
    TooManyPorts {
        /// Its name.
        slice: String,
        /// How many.
        ports: usize,
        /// The most.
        max: usize,
    },
    /// The same queue twice.
    SameQueue {
        /// Its name.
        slice: String,
        /// The port that is there twice.
        port: String,
    },
    /// The frames cannot be had; the sentence is the pool's.
    Frames {
        /// Its name.
        slice: String,
        /// Why not.
        reason: String,
    },
    /// A port cannot be opened; the sentence is the port's.
    Port {
        /// Its name.
        slice: String,
        /// The port.
        port: String,
        /// Why not.
        error: OpenError,
    },
    /// The filter is none; the sentence is its own.
    Filter {
        /// Its name.
        slice: String,
        /// What is wrong.
        error: FilterError,
    },
    /// The kernel refuses.
    Sys(SysError),
}

impl SliceError {
    pub(crate) fn port(slice: &str, port: impl fmt::Display, error: OpenError) -> Self {
        Self::Port { slice: slice.to_owned(), port: port.to_string(), error }
    }
}

impl From<SysError> for SliceError {
    fn from(error: SysError) -> Self {
        Self::Sys(error)
    }
}

impl fmt::Display for SliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPorts { slice } => {
                write!(f, "slice {slice} has no ports: name one or more, as in xdp:eth1")
            }
            Self::TooManyPorts { slice, ports, max } => write!(
                f,
                "slice {slice} has {ports} ports, and one thread looks after {max} at most: use more \
                 slices"
            ),
            Self::SameQueue { slice, port } => write!(
                f,
                "slice {slice} names {port} twice: a queue has one owner; name another with \
                 INTERFACE@QUEUE"
            ),
            Self::Frames { slice, reason } => write!(f, "slice {slice}: {reason}"),
            Self::Port { slice, port, error } => write!(f, "slice {slice}, port {port}: {error}"),
            Self::Filter { slice, error } => write!(f, "slice {slice}: {error}"),
            Self::Sys(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SliceError {}
