//! Why a bench, or one of its cases, could not be run.

use std::fmt;
use std::io;

/// Why a bench could not be run.
#[derive(Debug)]
pub enum Error {
    /// The figures could not be printed.
    Output(io::Error),
    /// Somebody pressed Ctrl-C: between two rounds, so that everything made is removed.
    Interrupted,
    /// Something that the case needs could not be had: what, and why.
    Needs {
        /// What was to be made.
        what: &'static str,
        /// What was said.
        why: String,
    },
}

impl Error {
    /// `what` could not be had because of `why`.
    pub(crate) fn needs(what: &'static str) -> impl FnOnce(&dyn fmt::Display) -> Self {
        move |why| Self::Needs { what, why: why.to_string() }
    }
}

/// Whether nobody has asked for an end: looked at between rounds, which are not disturbed by it.
///
/// # Errors
/// [`Error::Interrupted`].
pub(crate) fn unless_interrupted() -> Result<(), Error> {
    if sys::signal::stop_requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Says what was to be made when making it failed.
pub(crate) trait OrNeeds<T> {
    /// The value, or an error that names what was to be made.
    fn or_needs(self, what: &'static str) -> Result<T, Error>;
}

impl<T, E: fmt::Display> OrNeeds<T> for Result<T, E> {
    fn or_needs(self, what: &'static str) -> Result<T, Error> {
        self.map_err(|why| Error::needs(what)(&why))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(error) => write!(f, "cannot print figures: {error}"),
            Self::Interrupted => f.write_str("interrupted; the figures so far are above"),
            Self::Needs { what, why } => write!(f, "no {what}: {why}"),
        }
    }
}

impl std::error::Error for Error {}
