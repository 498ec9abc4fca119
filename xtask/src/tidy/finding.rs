//! What a check says about a place that breaks a rule.

use std::fmt;

/// One broken rule: where, which, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) rule: &'static str,
    pub(super) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, rule, message } = self;
        write!(f, "{file}:{line}: [{rule}] {message}")
    }
}
