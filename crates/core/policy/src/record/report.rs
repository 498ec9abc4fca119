//! What a replay has found.

use std::fmt;
use std::fmt::Write as _;

use serde::Serialize;

use super::again::Counts;

/// How much of a recording was run again, and whether every answer was the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayReport<C = Counts> {
    /// What was the same.
    #[serde(flatten)]
    pub counts: C,
    /// The first answer that was not the same; nothing after it was run.
    pub difference: Option<Difference>,
    /// How the recording ends.
    pub ending: Ending,
}

/// The first answer of a replay that differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The line of the recording; its snapshot is line 1.
    pub line: u64,
    /// What was recorded.
    pub expected: String,
    /// What the replay got.
    pub got: String,
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Nothing is missing.
    Complete,
    /// This many events found no room in the recorder after the last line.
    Lost(u64),
    /// The last line is missing or cut off.
    CutOff,
    /// The replay did not come that far.
    NotReached,
}

impl<C> ReplayReport<C> {
    /// Whether all of a complete recording gave the same answers.
    pub fn is_same(&self) -> bool {
        self.difference.is_none() && self.ending == Ending::Complete
    }
}

impl ReplayReport {
    /// For people.
    pub fn table(&self) -> String {
        let counts = &self.counts;
        let mut text = String::new();
        for (what, count) in [
            ("ticks with the same plan", counts.ticks),
            ("  that asked for something", counts.plans),
            ("  moves", counts.moves),
            ("  whole tables", counts.tables),
            ("groups placed the same", counts.placements),
            ("other events", counts.other_events),
        ] {
            writeln!(text, "{what:<28}{count:>12}").expect("a String takes all");
        }
        writeln!(text, "{self}").expect("a String takes all");
        text
    }
}

impl<C> fmt::Display for ReplayReport<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Difference { line, expected, got }) = &self.difference {
            return write!(
                f,
                "the first difference is in line {line}: recorded was {expected}, the replay \
                 gives {got}"
            );
        }
        match self.ending {
            Ending::Complete => f.write_str("every answer is the same"),
            Ending::Lost(lost) => write!(
                f,
                "every answer is the same as far as the recording goes; {lost} events after that \
                 found no room in the recorder: record with larger buffers, or for a shorter time"
            ),
            Ending::CutOff | Ending::NotReached => f.write_str(
                "every answer is the same as far as the recording goes, but it has no end: it was \
                 cut off while it was written or copied",
            ),
        }
    }
}

/// A line is not of a recording, or says what is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// Which line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, what } = self;
        write!(f, "line {line} of the recording is damaged: {what}; record again")
    }
}

impl std::error::Error for ReplayError {}
