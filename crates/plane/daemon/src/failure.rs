//! Why the daemon cannot run: one sentence each, with what to do.

use std::fmt;
use std::path::PathBuf;

/// The daemon cannot start.
#[derive(Debug)]
pub enum Failure {
    /// The configuration cannot be read.
    File(PathBuf, sys::regular_file::FileError),
    /// The admin socket cannot be had.
    Socket(String, String),
    /// Something of ours says why itself.
    Said(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => {
                write!(f, "cannot read the configuration {}: {error}", path.display())
            }
            Self::Socket(path, why) => write!(f, "cannot listen on the admin socket {path}: {why}"),
            Self::Said(sentence) => f.write_str(sentence),
        }
    }
}

/// Every error type below is a finished sentence already.
macro_rules! said {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Said(error.to_string())
            }
        })*
    };
}

said!(
    crate::apps::RuleError,
    config::ConfigError,
    datapath::listeners::ListenerError,
    policy::GroupCountError,
    policy::UnknownPolicy,
    port::OpenError,
    port::SpecError,
    shm::RegionError,
    shm::pool::PoolError,
    sys::SysError
);
