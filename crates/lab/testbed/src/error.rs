//! Why a testbed could not be made or removed, as a sentence that says what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use sys::SysError;

/// Why a testbed could not be made or removed.
#[derive(Debug)]
pub enum TestbedError {
    /// The command `ip` is not installed.
    NoIpCommand,
    /// The command could not be started.
    CannotRun {
        /// The whole command.
        command: String,
        /// Why.
        error: io::Error,
    },
    /// The command ran and failed.
    CommandFailed {
        /// The whole command.
        command: String,
        /// What it printed.
        output: String,
    },
    /// A file under /proc could not be read or written.
    Proc {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The configuration cannot be built.
    Config(String),
    /// A system call failed.
    Sys(SysError),
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIpCommand => {
                write!(f, "the command `ip` is missing: run `apt-get install iproute2`")
            }
            Self::CannotRun { command, error } => write!(f, "cannot run `{command}`: {error}"),
            Self::CommandFailed { command, output } => {
                write!(f, "`{command}` failed: {}{}", output.trim(), advice(output))
            }
            Self::Proc { path, error } => {
                write!(f, "cannot use {}: {error}{}", path.display(), advice(&error.to_string()))
            }
            Self::Config(sentence) => write!(f, "{sentence}"),
            Self::Sys(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for TestbedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::CannotRun { error, .. } | Self::Proc { error, .. } => Some(error),
            Self::Sys(error) => Some(error),
            Self::NoIpCommand | Self::CommandFailed { .. } | Self::Config(_) => None,
        }
    }
}

impl From<SysError> for TestbedError {
    fn from(error: SysError) -> Self {
        Self::Sys(error)
    }
}

fn advice(said: &str) -> &'static str {
    let said = said.to_lowercase();
    if said.contains("not permitted") || said.contains("permission denied") {
        "; network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN)"
    } else if said.contains("read-only file system") {
        "; in a container, run it privileged"
    } else {
        ""
    }
}
