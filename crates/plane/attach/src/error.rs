//! Why an application did not attach.

use std::fmt;
use std::path::PathBuf;

use sys::SysError;

use crate::message::Detached;

/// Why an application did not attach; as a sentence it says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// There is no socket of that name.
    NoSocket(PathBuf),
    /// There is a socket, but nobody answers.
    NobodyAnswers(PathBuf),
    /// This user may not.
    NotPermitted(PathBuf),
    /// There is something else of that name.
    NotTheDaemon(PathBuf),
    /// The daemon did not answer in time.
    TimedOut,
    /// The daemon said no; its words.
    Refused(String),
    /// The daemon closed the connection.
    Closed,
    /// The daemon has let go of the application, and said why.
    Detached(Detached),
    /// What was asked for cannot be sent, or what the daemon sent cannot be used; a sentence.
    Protocol(String),
    /// The kernel refused something.
    System(SysError),
}

impl AttachError {
    /// Whether a daemon that is started later, or has more time, may answer: try again.
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::NoSocket(_) | Self::NobodyAnswers(_) | Self::TimedOut | Self::Closed)
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSocket(path) => write!(
                f,
                "there is no socket {}: is the daemon running? Start it with `calisto up`, or name \
                 its socket (CALISTO_APPS)",
                path.display()
            ),
            Self::NobodyAnswers(path) => write!(
                f,
                "nobody answers at {}: the daemon has ended; start it with `calisto up`",
                path.display()
            ),
            Self::NotPermitted(path) => write!(
                f,
                "you may not use {}: run this as a user whom the socket's permissions allow",
                path.display()
            ),
            Self::NotTheDaemon(path) => write!(
                f,
                "{} is not the daemon's socket for applications, or another user's who could have put it \
                 there: name another (CALISTO_APPS)",
                path.display()
            ),
            Self::TimedOut => f.write_str(
                "the daemon did not answer in time: it is stuck or very busy; look at `calisto status`",
            ),
            Self::Refused(why) => write!(f, "the daemon refused: {why}"),
            Self::Closed => f.write_str(
                "the daemon closed the connection without a word: it has ended; look at its log",
            ),
            Self::Detached(detached) => detached.fmt(f),
            Self::Protocol(what) => f.write_str(what),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AttachError {}

impl From<SysError> for AttachError {
    fn from(error: SysError) -> Self {
        Self::System(error)
    }
}
