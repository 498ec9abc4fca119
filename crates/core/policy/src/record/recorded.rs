//! What differs between the recordings of the control loop and of the core control.
//!
//! All else is written once over this: [`Recorder`](super::Recorder), [`Writer`](super::Writer) and
//! the replay.

use std::fmt::Debug;

use base::Nanos;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of recording, named by the snapshot that it begins with. Two types are one:
/// [`Snapshot`](super::Snapshot) and
/// [`CoresSnapshot`](crate::cores::record::CoresSnapshot).
pub trait Recorded: Serialize + DeserializeOwned {
    /// Memory for a snapshot that is taken where none can be made.
    type Room: Debug;
    /// Something that happened, as the data loop notes it: small, and copied.
    type Event: Clone + Debug;
    /// Items that belong to a call whose own event has not come yet.
    type Assembly: Default + Debug;
    /// A line: one call with its lists and its answer.
    type Line: Serialize + DeserializeOwned;
    /// What is run again, with its tables.
    type Again;
    /// What a replay counts.
    type Counts;

    /// The event of `ticks` ticks, the latest at `last`, that could change nothing and did not.
    fn idle(ticks: u32, last: Nanos) -> Self::Event;

    /// Its ticks and the time of the latest, if it is an event of [`Recorded::idle`].
    fn as_idle(event: &mut Self::Event) -> Option<(&mut u32, &mut Nanos)>;

    /// The line that this event completes.
    fn add(assembly: &mut Self::Assembly, event: &Self::Event) -> Option<Self::Line>;

    /// The last line: `lost` events found no room after the line before.
    fn end(lost: u64) -> Self::Line;

    /// What a replay starts from.
    ///
    /// # Errors
    /// What is impossible in the snapshot, as a sentence: it may come from a file that anybody
    /// wrote.
    fn restore(self) -> Result<Self::Again, String>;

    /// Makes the call of a line again, and counts it.
    ///
    /// # Errors
    /// What is impossible in the line, as a sentence.
    fn run(again: &mut Self::Again, line: Self::Line) -> Result<Step, String>;

    /// What was counted.
    fn counts(again: Self::Again) -> Self::Counts;
}

/// What a call of a replay has come to.
pub enum Step {
    /// The recorded answer.
    Same,
    /// Another one: what was expected, and what came.
    Other(String, String),
    /// No call: the last line, and how many events were lost after the line before.
    End(u64),
}

impl Step {
    /// Whether the answer is the recorded one.
    pub(crate) fn compare<T: PartialEq + Debug>(expected: &T, got: &T) -> Self {
        if expected == got {
            return Self::Same;
        }
        Self::Other(format!("{expected:?}"), format!("{got:?}"))
    }
}
