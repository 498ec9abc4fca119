//! A script: one call per line, by whichever player, on descriptors that have names.

use std::fmt;

/// Who plays a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// The program under test.
    Here,
    /// Another such program, on the same host.
    Beside,
    /// The peer at the other end of the wire, on Linux always.
    There,
}

/// All of them, in the order of their processes.
pub(crate) const PLAYERS: [Who; 3] = [Who::Here, Who::Beside, Who::There];

impl Who {
    /// The word before the colon, and the name of its mailbox.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Beside => "beside",
            Self::There => "there",
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) who: Who,
    /// The call and its arguments, with single spaces.
    pub(crate) call: String,
}

impl Step {
    pub(crate) fn new(who: Who, call: impl Into<String>) -> Self {
        Self { who, call: call.into() }
    }

    /// The call itself, also when a child makes it.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.call.split(' ').skip_while(|word| *word == "child")
    }

    /// Its name.
    pub(crate) fn verb(&self) -> &str {
        self.words().next().unwrap_or("")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::Here => f.write_str(&self.call),
            who => write!(f, "{}: {}", who.word(), self.call),
        }
    }
}

/// A sequence of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script(pub(crate) Vec<Step>);

impl Script {
    /// Reads what [`fmt::Display`] writes; lines that are empty or begin with `#` are for readers.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(step).collect())
    }
}

fn step(line: &str) -> Step {
    for who in PLAYERS {
        if let Some(call) = line.strip_prefix(who.word()).and_then(|line| line.strip_prefix(": ")) {
            return Step::new(who, call);
        }
    }
    Step::new(Who::Here, line)
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}
