//! Why a function of a shared object is not made.

use std::fmt;

/// Why a function is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// The file is somebody else's, or others may write it.
    NotOurs,
    /// Others may put another file in its place: this folder is theirs, or they may write it.
    OpenFolder(String),
    /// The loader says why.
    Library(String),
    /// It is no such object.
    NoSymbol,
    /// It is of another version of the interface.
    Version(u32),
    /// It has more counters than are read.
    Counters(u32),
    /// It has not what every function has.
    Incomplete(&'static str),
    /// The object says why.
    Refused(String),
}

impl fmt::Display for NotLoaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs => f.write_str(
                "it would run as us: it must be a file of root or of who runs the chain, which \
                 nobody else may write (`chmod go-w`)",
            ),
            Self::OpenFolder(folder) => write!(
                f,
                "it would run as us: {folder} must be a folder of root or of who runs the chain, \
                 in which nobody else may put another file in its place (`chmod go-w`)"
            ),
            Self::Library(why) => f.write_str(why),
            Self::NoSymbol => {
                f.write_str("it defines no calisto_function_1, as calisto_function.h says")
            }
            Self::Version(version) => write!(
                f,
                "it is of version {version} of the interface, and this is 1: compile it anew"
            ),
            Self::Counters(count) => write!(f, "it has {count} counters, and 64 are the most"),
            Self::Incomplete(what) => write!(f, "it has no {what}"),
            Self::Refused(why) if why.is_empty() => f.write_str("it refuses, without a word"),
            Self::Refused(why) => write!(f, "it says: {why}"),
        }
    }
}

impl std::error::Error for NotLoaded {}
