//! One thing that was looked at, and what it means.

use std::fmt;

use serde::Serialize;

/// How good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Fine,
    /// Good to know; or it could not be read.
    Note,
    /// It works, and costs something.
    Worse,
    /// Something does not work at all.
    Missing,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Worse => "worse",
            Self::Missing => "missing",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `kernel` or `eth1 mtu`.
    pub subject: String,
    /// How good it is.
    pub level: Level,
    /// How it is.
    pub what: String,
    /// What that costs.
    pub cost: Option<String>,
    /// The command that changes it, or what to do where no command can.
    pub mend: Option<String>,
    /// Whether no port of any interface can be opened as long as it is so.
    pub blocks_ports: bool,
}

impl Finding {
    fn new(subject: impl Into<String>, level: Level, what: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            level,
            what: what.into(),
            cost: None,
            mend: None,
            blocks_ports: false,
        }
    }

    pub(crate) fn fine(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(subject, Level::Fine, what)
    }

    pub(crate) fn note(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(subject, Level::Note, what)
    }

    pub(crate) fn worse(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(subject, Level::Worse, what)
    }

    pub(crate) fn missing(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(subject, Level::Missing, what)
    }

    /// The same, with what it costs.
    pub(crate) fn cost(mut self, cost: impl Into<String>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    /// The same, with what changes it.
    pub(crate) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// The same, as a reason why nothing works.
    pub(crate) fn blocks_ports(mut self) -> Self {
        self.blocks_ports = true;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<7} {} {}", self.level, self.subject, self.what)?;
        if let Some(cost) = &self.cost {
            write!(f, "; {cost}")?;
        }
        match &self.mend {
            Some(mend) => write!(f, ": {mend}"),
            None => Ok(()),
        }
    }
}
