//! What is said of a configuration: how bad it is, about which key, and the mend.

/// Something about a configuration that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The key that it is about, as `section.key`.
    pub key: &'static str,
    /// Which item of the key's array, or which `[[tenant]]`; `None`: all of it.
    pub index: Option<usize>,
    /// One sentence: what is wrong, and what to do.
    pub says: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The daemon would not start.
    Wrong,
    /// It would, and do what hardly anybody means.
    Doubtful,
}

impl Severity {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Doubtful => "doubtful",
        }
    }
}

impl Finding {
    pub(super) fn wrong(key: &'static str, index: Option<usize>, says: impl ToString) -> Self {
        Self { severity: Severity::Wrong, key, index, says: says.to_string() }
    }

    pub(super) fn doubtful(key: &'static str, index: Option<usize>, says: impl ToString) -> Self {
        Self { severity: Severity::Doubtful, key, index, says: says.to_string() }
    }
}
