//! Why a command failed: one sentence for a person, one exit code for a script.

use std::fmt;

/// What `env` and shells end with when there is no such program.
pub(crate) const NO_PROGRAM_CODE: u8 = 127;

/// The same when it cannot be run.
pub(crate) const NOT_RUN_CODE: u8 = 126;

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    sentence: String,
    exit_code: u8,
}

impl Failure {
    /// Something did not work.
    pub fn new(sentence: impl fmt::Display) -> Self {
        Self { sentence: sentence.to_string(), exit_code: 1 }
    }

    /// The command line asks for something that cannot be.
    pub fn usage(sentence: impl fmt::Display) -> Self {
        Self { sentence: sentence.to_string(), exit_code: 2 }
    }

    /// 1, or 2 for wrong usage.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<chain::ChainError> for Failure {
    fn from(error: chain::ChainError) -> Self {
        Self::new(error)
    }
}
