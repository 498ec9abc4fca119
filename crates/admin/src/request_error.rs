//! Requests that are well formed and cannot be meant.

use std::fmt;
use std::ops::RangeInclusive;

/// What does not fit together in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Another version of the protocol.
    Version(u32),
    /// The command is about the daemon, and an application is named.
    NoApp(&'static str),
    /// The command is about an application, and none is named.
    AppMissing(&'static str),
    /// An application's name has so many bytes.
    AppName(usize),
    /// A figure is not possible.
    Range {
        /// Which.
        figure: &'static str,
        /// Its value.
        value: u64,
        /// What is possible.
        range: RangeInclusive<u64>,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "version {version} of the admin protocol is not spoken here; this daemon speaks {}",
                crate::VERSION
            ),
            Self::NoApp(command) => {
                write!(f, "`{command}` is about the daemon: leave `app` out")
            }
            Self::AppMissing(command) => write!(
                f,
                "`{command}` is about an application: name it in `app`; see `calisto apps`"
            ),
            Self::AppName(bytes) => write!(
                f,
                "an application's name has 1 to {} bytes, not {bytes}; see `calisto apps`",
                crate::APP_NAME_BYTES_MAX
            ),
            Self::Range { figure, value, range } => write!(
                f,
                "`{figure}` is {value}: {} to {} are possible",
                range.start(),
                range.end()
            ),
        }
    }
}

impl std::error::Error for RequestError {}
